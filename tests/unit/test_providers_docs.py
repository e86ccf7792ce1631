"""docs/providers.md tells the truth: its examples load, its tables are those of the code, what it names exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from pydantic import BaseModel

from radar_dagster.config import AuditSection, Workspace, load_workspace
from radar_dagster.models import hosted, templates
from radar_dagster.models.batch_items import MOST_CALLS
from radar_dagster.models.capabilities import Overrides, capabilities_of
from radar_dagster.models.door import Door
from radar_dagster.models.endpoints import BUILT_IN, Endpoint
from radar_dagster.models.hosted import HostedModel, HostedOptions
from radar_dagster.models.naming import ModelSpec, parse_model_name
from radar_dagster.models.prices import Price
from radar_dagster.models.providers import Generator, Verifier

PAGE = (Path(__file__).parents[2] / "docs" / "providers.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
PROSE = re.sub(r"```.*?```", "", PAGE, flags=re.DOTALL)
#: Whatever may stand before a colon in a radar.yaml.
SETTINGS: tuple[type[BaseModel], ...] = (
    Workspace, AuditSection, ModelSpec, HostedOptions, Endpoint, Overrides, Price
)  # fmt: skip
KEYS = {name for model in SETTINGS for name in model.model_fields}


def section(title: str) -> str:
    return PROSE.split(f"\n## {title}\n")[1].split("\n## ")[0]


def rows(text: str) -> list[list[str]]:
    """The cells of a table, without its two lines of heading."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def workspace(example: str, folder: Path) -> Workspace:
    (folder / "radar.yaml").write_text(example, encoding="utf-8")
    return load_workspace(folder / "radar.yaml")


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_is_a_workspace_whose_models_can_play_their_roles(example: str, tmp_path: Path) -> None:
    loaded = workspace(example, tmp_path)
    rubric = loaded.rubric("helpsteer2")
    door = Door(loaded.door)
    for alias in loaded.generators:
        door.check(alias, Generator, rubric)
    for alias in loaded.verifiers:
        door.check(alias, Verifier, rubric)
    for alias in (*loaded.generators, *loaded.verifiers):
        model = door.model(alias)
        assert isinstance(model, HostedModel)
        if loaded.prices:
            assert door.prices.is_known(model.spec.model, model.endpoint)


def test_there_is_an_example_for_each_kind_of_provider() -> None:
    named = {endpoint for example in EXAMPLES for endpoint in yaml.safe_load(example).get("endpoints", {})}
    assert {"openai", "anthropic", "azure-gpt5", "azure-dated", "vllm", "ollama", "llamacpp", "openrouter"} <= named
    declared = [each for example in EXAMPLES for each in yaml.safe_load(example).get("endpoints", {}).values()]
    addresses = {Endpoint.model_validate(each).url for each in declared if "base_url" in each}
    assert {"https://my-resource.openai.azure.com/openai/v1", "https://my-resource.openai.azure.com"} <= addresses
    assert "http://127.0.0.1:8080/v1" in addresses


def test_the_table_of_options_has_each_option_once_with_its_default() -> None:
    table = rows(section("Options of a hosted model"))
    written = {name.strip("`"): yaml.safe_load(default.strip("`")) for name, default, _ in table}
    assert written == HostedOptions().model_dump()
    assert len(table) == len(written)


def test_the_defaults_that_the_page_tells_are_those_of_the_code() -> None:
    options = section("Options of a hosted model")
    generator, verifier = templates.GENERATOR_TEMPERATURE, templates.VERIFIER_TEMPERATURE
    assert f"{generator:g} for a generator and {verifier:g} for a verifier" in options
    tokens = f"{templates.GENERATOR_TOKENS:,} for a generator, {templates.VERIFIER_TOKENS:,} for a verifier"
    assert f"{tokens}, {hosted._REASONING_TOKENS:,} more" in options
    assert f"and {templates.PROBABILITY_TOKENS} for `score_from: logprobs`" in options
    assert f"at most {templates.MOST_TOKENS:,} in all" in PROSE
    assert f"({templates.TOP_LOGPROBS} candidates" in PROSE
    assert f"Up to {MOST_CALLS:,} calls" in PROSE
    efforts = re.findall(r"`@(\w+)`", next(line for line in options.splitlines() if line.startswith("| `effort`")))
    assert "|".join(efforts) == hosted._EFFORTS.pattern


def test_the_table_of_what_models_take_is_that_of_the_code() -> None:
    endpoints = dict(BUILT_IN)
    for example in EXAMPLES:
        declared = yaml.safe_load(example).get("endpoints", {})
        # Those of the page's other sections: overrides have an example of their own.
        endpoints |= {name: Endpoint.model_validate(each | {"capabilities": {}}) for name, each in declared.items()}
    table = rows(section("What each model takes"))
    assert len(table) == 7
    for models, *cells in table:
        (name,) = re.findall(r"`(.*?)`", models)
        endpoint, model, _ = parse_model_name(name)
        takes = capabilities_of(endpoints[endpoint], model)
        said = [takes.temperature, takes.max_tokens_field, takes.structured_output, takes.effort, takes.logprobs]
        assert cells == [{True: "yes", False: "no"}.get(each, each) for each in (*said, takes.batch)], name


def test_every_key_that_the_page_names_exists() -> None:
    written = re.findall(r"`([a-z_]+):[^`/]*`", PROSE)
    named = re.findall(r"`((?:max|api|base|requests|tokens|batch|timeout|score|budget)_[a-z_]+)`", PROSE)
    assert {"mode", "score_from", "reasons"} <= set(written)
    assert set(written) <= KEYS
    assert set(named) - {"score_from_reason", "max_completion_tokens", "budget_stopped"} <= KEYS
    assert {"api_key_env", "batch_poll_s", "max_attempts"} <= set(named)
