"""`radar check`: reads the whole configuration and says what is there and, all at once, what is wrong.

Not here: the rules that are checked, which live with what they are about (`config.py`, `rubric/`, `models/`).
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from radar_dagster.cli import output
from radar_dagster.cli.errors import BAD_INPUT, PASSED
from radar_dagster.config import Workspace, current_workspace, workspace_file
from radar_dagster.errors import OperationalError, RadarError
from radar_dagster.inputs.human import configured_source, source_notes
from radar_dagster.models.door import Door
from radar_dagster.models.hosted import HostedModel
from radar_dagster.models.naming import PROGRAMMATIC, ModelSpec, is_rule_based
from radar_dagster.models.providers import Generator, Verifier
from radar_dagster.report.words import model_kind
from radar_dagster.rubric.model import Rubric


def run(*, as_json: bool) -> int:
    """Check radar.yaml, every rubric, every model and whether each can serve each; calls no model.

    What is missing in the environment is a warning: the same file is right where the keys are set.
    """
    workspace = current_workspace()
    errors = _Errors()
    rubrics: dict[str, Rubric] = {}
    for name in workspace.benchmarks:
        with errors:
            rubrics[name] = workspace.rubric(name)
            source = configured_source(workspace, name)
            if source is not None:
                source_notes(source, [criterion.id for criterion in rubrics[name].criteria])
    door = Door(workspace.door)
    with output.results_only():
        models = _check_models(workspace, door, rubrics, errors)
    found = workspace_file()
    document: dict[str, Any] = {
        "workspace": str(found) if found else None,
        "store": workspace.store_url,
        "benchmarks": [_benchmark_row(workspace, name, rubrics.get(name)) for name in workspace.benchmarks],
        "models": models,
        "pairs": ["~".join(pair) for pair in workspace.pairs()],
        "errors": errors,
        "warnings": [],
    }
    with output.results_only():
        hosted = _hosted(workspace, door)
    keyless = _without_keys(hosted)
    document["warnings"] = [*keyless, *_idle_prices(door, hosted)]
    output.print_json(document) if as_json else _show(document, usable=not errors and not keyless)
    for warning in document["warnings"]:
        output.on_stderr(f"warning: {warning}")
    for error in errors:
        output.on_stderr(f"Error: {error}")
    return BAD_INPUT if errors else PASSED


class _Errors(list[str]):
    """Faults in the order in which they are met, each once. As a context it notes the fault and lets the rest go on."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if not isinstance(error, RadarError):
            return False
        if str(error) not in self:
            self.append(str(error))
        return True


def _benchmark_row(workspace: Workspace, name: str, rubric: Rubric | None) -> dict[str, Any]:
    return {
        "benchmark": name,
        "file": str(workspace.rubric_path(name)),
        "criteria": len(rubric.criteria) if rubric else None,
        "tasks": len(rubric.tasks) if rubric else None,
        "content_hash": rubric.content_hash if rubric else None,
    }


def _check_models(
    workspace: Workspace, door: Door, rubrics: Mapping[str, Rubric], errors: _Errors
) -> list[dict[str, Any]]:
    """Whether every model can play its part on every rubric."""
    rows = []
    for alias, spec in workspace.models.items():
        generates, verifies = alias in workspace.generators, alias in workspace.verifiers
        for rubric in rubrics.values():
            with errors:
                if generates:
                    door.check(alias, Generator, rubric)
                if verifies:
                    door.check(alias, Verifier, rubric)
        roles = ["generator"] * generates + ["verifier"] * verifies
        rows.append({"alias": alias, "model": spec.model, "roles": roles, "rule_based": is_rule_based(spec)})
    return rows


def _hosted(workspace: Workspace, door: Door) -> dict[str, HostedModel]:
    """The hosted models by alias, as far as their names and options are any good; nobody's own module is imported."""
    found: dict[str, HostedModel] = {}
    for alias, spec in workspace.models.items():
        if spec.name.provider in PROGRAMMATIC:
            continue
        with suppress(RadarError):  # told among the errors
            model = door.model(alias)
            if isinstance(model, HostedModel):
                found[alias] = model
    return found


def _without_keys(hosted: Mapping[str, HostedModel]) -> list[str]:
    """A sentence for each key that is missing or is none, with the models that need it. No fault of the file's."""
    lacking: dict[str, list[str]] = {}
    for alias, model in hosted.items():
        try:
            model.endpoint.api_key(model.endpoint_name)
        except OperationalError as error:
            lacking.setdefault(str(error), []).append(f"{alias} ({model.spec.model})")
    return [f"{problem}: needed by {', '.join(models)}" for problem, models in lacking.items()]


def _idle_prices(door: Door, hosted: Mapping[str, HostedModel]) -> list[str]:
    """A sentence for each entry of `prices:` that prices nothing here; it may be misspelt."""
    idle = door.prices.idle([model.spec.model for model in hosted.values()])
    return [f"prices: {pattern!r} is the price of no model here" for pattern in idle]


def _kind(model: str) -> str:
    return model_kind(ModelSpec(model=model)) or ""


def _show(document: Mapping[str, Any], *, usable: bool) -> None:
    output.say(f"Workspace: {document['workspace'] or 'no radar.yaml in sight, so the defaults'}")
    output.say(f"Store:     {document['store']}")
    output.say()
    output.print_table(
        ("benchmark", "criteria", "tasks", "file"),
        [(row["benchmark"], row["criteria"], row["tasks"], row["file"]) for row in document["benchmarks"]],
        right=(1, 2),
    )
    output.say()
    output.print_table(
        ("alias", "model", "used as", ""),
        [
            (row["alias"], row["model"], ", ".join(row["roles"]) or "unused", _kind(row["model"]))
            for row in document["models"]
        ],
    )
    output.say()
    output.say(f"Pairs: {', '.join(document['pairs'])}")
    if usable:
        output.say("All of it can be used.")
    else:
        output.say("Not all of it can be used:" if document["errors"] else "It is in order, but keys are missing:")
