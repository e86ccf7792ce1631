# Two commands on a fresh machine that has git, make and Python 3.11 to 3.13:
#   make audit   installs into .venv and audits the shipped HelpSteer2 rubric on the offline models
#   make test    runs every test
.DEFAULT_GOAL := help
.PHONY: help audit test quick lint format dev constraints clean

PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed

help: ## show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

audit: $(STAMP) ## install, audit HelpSteer2 on the offline models, print the verdict and the path of the report
	@$(BIN)/radar audit helpsteer2; code=$$?; \
	case $$code in 0|1|3) exit 0;; *) exit $$code;; esac  # whatever the verdict is, the audit worked

test: $(STAMP) ## run every test, the slow ones and the browser's included
	$(BIN)/pytest -n auto --dist loadfile --no-loadscope-reorder

quick: $(STAMP) ## run the unit tests that take under a minute
	$(BIN)/pytest -n auto -m "not slow and not browser" tests/unit radar_dagster

lint: $(STAMP) ## ruff and mypy
	$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy

format: $(STAMP) ## let ruff mend what it can
	$(BIN)/ruff check --fix . ; $(BIN)/ruff format .

dev: $(STAMP) ## open the Dagster UI on this workspace
	$(BIN)/radar dev

constraints: $(STAMP) ## pin the newest versions that fit pyproject.toml, for every supported Python
	$(BIN)/uv pip compile pyproject.toml --extra dev --universal --python-version 3.11 --upgrade \
		--no-emit-index-url --no-emit-find-links --no-header --no-annotate -o constraints.txt

clean: ## remove the environment and every cache; audits under .radar/ stay
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist *.egg-info

# pip brings uv (the venv's pip is all that a fresh machine has), uv installs in seconds. Compiling bytecode now saves the
# first audit the seconds that the imports of Dagster and Great Expectations would take otherwise.
$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' \
		|| { echo "Python 3.11, 3.12 or 3.13 is needed; name one with: make PYTHON=python3.12 …"; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	test -x $(BIN)/uv || $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt uv
	$(BIN)/uv pip install --quiet --python $(BIN)/python --compile-bytecode -c constraints.txt -e '.[dev]'
	@touch $@
