"""Which workspace a command works on, and how the options of `radar audit` and `radar plan` select from it.

Here: making the small workspace under `.radar/` when there is no radar.yaml, models and rubrics that are named on the
command line. Not here: the shape of radar.yaml and where it is found (`config.py`), running anything.
"""

from __future__ import annotations

import os
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel, ValidationError

from radar_dagster.config import (
    CONFIG_NAME,
    IMPLICIT_FOLDER,
    AuditSection,
    Workspace,
    current_workspace,
    load_workspace,
    workspace_file,
)
from radar_dagster.errors import BadInputError
from radar_dagster.inputs.human import named_source
from radar_dagster.inputs.ratings import Raters
from radar_dagster.models.naming import ModelSpec, parse_model_name
from radar_dagster.partitions import BENCHMARK, PAIR, Pair
from radar_dagster.rubric.loading import load_rubric, load_yaml_mapping, shipped_benchmarks, validate_document
from radar_dagster.rubric.model import Rubric
from radar_dagster.stats.settings import CouplingSettings, Policy, ReadingThresholds

if TYPE_CHECKING:
    from radar_dagster.models.door import Door
    from radar_dagster.stock import Stock

_Model = TypeVar("_Model", bound=BaseModel)

_HEADER = """\
# The small workspace that `radar audit` keeps where there is no radar.yaml: every audit adds its rubric and its models
# and writes its own settings here. `radar dev` opens it. For a workspace of your own, run `radar init`.
"""


class PolicyFile(Policy):
    """What `--policy FILE` holds: a policy as in radar.yaml, and the thresholds of the readings if they differ."""

    thresholds: ReadingThresholds | None = None


@dataclass(frozen=True)
class AuditOptions:
    """The options that `radar audit` and `radar plan` share, as they were typed; None or empty where they were not."""

    rubric: str
    generators: Sequence[str] = ()
    verifiers: Sequence[str] = ()
    probes: int | None = None
    tasks: str | None = None
    gate: float | None = None
    policy: Path | None = None
    budget: float | None = None
    human: str | None = None
    raters: Raters = "all"
    baselines: bool = False


@dataclass(frozen=True)
class Selection:
    """What to audit: a benchmark of a workspace with some of its (generator, verifier) pairs."""

    workspace: Workspace
    benchmark: str
    rubric: Rubric
    pairs: tuple[Pair, ...]
    #: What the person should know, in a sentence each.
    notes: tuple[str, ...]
    #: The file of the small workspace that must be written before it can be worked on; None for somebody's own.
    implicit_file: Path | None
    #: Whether the passive baselines are made too.
    baselines: bool = False

    def stock(self, door: Door) -> Stock:
        """What is there of this audit already."""
        from radar_dagster.stock import Stock

        return Stock(self.workspace, self.benchmark, self.rubric, door, baselines=self.baselines)

    def save(self) -> None:
        """Write the small workspace, if this is one."""
        if self.implicit_file is not None:
            from radar_dagster.cli.output import write_file

            write_file(self.implicit_file, _as_yaml(self.workspace).encode("utf-8"))


def configured_cell(benchmark: str, pair: str) -> tuple[Workspace, dict[str, str]]:
    """This workspace and the partition of a cell; BadInputError with the known names when it is not configured."""
    workspace = current_workspace()
    workspace.rubric_path(benchmark)
    known = [Pair(*names).key for names in workspace.pairs()]
    if pair not in known:
        raise BadInputError(f"no pair {pair!r} in this workspace; there are {', '.join(known)}")
    return workspace, {BENCHMARK: benchmark, PAIR: pair}


def select(options: AuditOptions) -> Selection:
    """Find or extend the workspace for an audit; writes nothing. BadInputError names the option or file at fault."""
    file = workspace_file()
    implicit = file is None or file.parent.name == IMPLICIT_FOLDER
    base = _implicit_base(file) if implicit else load_workspace(file or Path())
    benchmark, benchmarks = _benchmark(base, options.rubric)
    models = dict(base.models)
    generators = _aliases(models, options.generators, base.generators if not implicit else ("editor",))
    verifiers = _aliases(models, options.verifiers, base.verifiers if not implicit else ("reader",))
    notes = [] if implicit else _strangers(base, benchmark, [*generators, *verifiers], models)
    workspace = _changed(
        base,
        benchmarks=benchmarks,
        models={alias: spec.model_dump() for alias, spec in models.items()},
        generators=_union(base.generators, generators),
        verifiers=_union(base.verifiers, verifiers),
        audit=_audit(AuditSection() if implicit else base.audit, options).model_dump(),
        budget_usd=base.budget_usd if options.budget is None else options.budget,
        human=_human(base, benchmark, benchmarks, options),
    )
    all_pairs = (Pair(*names) for names in workspace.pairs())
    pairs = tuple(pair for pair in all_pairs if pair.generator in generators and pair.verifier in verifiers)
    if not pairs:
        raise BadInputError(
            f"{', '.join(generators)} would only judge its own text; name another --verifier, or set "
            f"allow_self_pairs: true in {CONFIG_NAME}"
        )
    return Selection(
        workspace=workspace,
        benchmark=benchmark,
        rubric=workspace.rubric(benchmark),
        pairs=pairs,
        notes=tuple(notes),
        implicit_file=(file or workspace.root / IMPLICIT_FOLDER / CONFIG_NAME) if implicit else None,
        baselines=options.baselines,
    )


def _implicit_base(file: Path | None) -> Workspace:
    if file is None:
        return current_workspace()
    base = load_workspace(file)
    gone = [name for name, path in base.benchmarks.items() if path is not None and not (base.root / path).is_file()]
    kept = {name: path for name, path in base.benchmarks.items() if name not in gone}
    return base.model_copy(update={"benchmarks": kept})


def _benchmark(base: Workspace, named: str) -> tuple[str, dict[str, str | None]]:
    """The benchmark that RUBRIC names, and the workspace's benchmarks with it among them."""
    benchmarks = dict(base.benchmarks)
    if named in benchmarks:
        return named, benchmarks
    if named in shipped_benchmarks():
        return named, {**benchmarks, named: None}
    file = Path(named)
    if not file.is_file():
        known = ", ".join(dict.fromkeys([*benchmarks, *shipped_benchmarks()]))
        raise BadInputError(f"{named!r} is neither a rubric file nor a benchmark ({known})")
    for name, path in benchmarks.items():
        if path is not None and (base.root / path).resolve() == file.resolve():
            return name, benchmarks
    name = load_rubric(file).name
    if name in benchmarks or name in shipped_benchmarks():
        other = benchmarks.get(name) or "a shipped benchmark"
        raise BadInputError(f"{file}: the name {name!r} is taken by {other}; put another `name:` into the file")
    return name, {**benchmarks, name: _relative(file, base.root)}


def _relative(file: Path, root: Path) -> str:
    absolute = file.resolve()
    return os.path.relpath(absolute, root.resolve()) if absolute.is_relative_to(root.resolve()) else str(absolute)


def _aliases(models: dict[str, ModelSpec], named: Sequence[str], default: Sequence[str]) -> list[str]:
    """Aliases for what was named, an alias or `provider/model`; models that have none get one in `models`."""
    return list(dict.fromkeys(_alias(models, name) for name in named)) if named else list(default)


def _alias(models: dict[str, ModelSpec], name: str) -> str:
    if name in models:
        return name
    if "/" not in name:
        raise BadInputError(f"no model {name!r}; give provider/model or one of {', '.join(models)}")
    spec = ModelSpec(model=str(parse_model_name(name)))
    for alias, known in models.items():
        if known == spec:
            return alias
    alias = _free_alias(models, spec)
    models[alias] = spec
    return alias


def _free_alias(models: Mapping[str, ModelSpec], spec: ModelSpec) -> str:
    """A short slug: the last part of the model's name, with the variant, and a number if that is taken."""
    parts = spec.name
    stem = parts.model.replace(":", "/").rsplit("/", 1)[-1] + (f"-{parts.variant}" if parts.variant else "")
    slug = "".join(char if char.isascii() and char.isalnum() else "-" for char in stem.lower()).strip("-")[:40]
    slug = slug or parts.provider
    taken = [slug, *(f"{slug}-{count}" for count in range(2, 1000))]
    return next(alias for alias in taken if alias not in models)


def _strangers(base: Workspace, benchmark: str, aliases: Sequence[str], models: Mapping[str, ModelSpec]) -> list[str]:
    """What is audited although radar.yaml does not list it, and so does not show in the Dagster UI."""
    missing = [] if benchmark in base.benchmarks else [f"the rubric {benchmark}"]
    missing += [f"{alias} ({models[alias].model})" for alias in aliases if alias not in base.models]
    missing += [
        alias
        for alias in dict.fromkeys(aliases)
        if alias in base.models and alias not in base.generators + base.verifiers
    ]
    if not missing:
        return []
    return [f"{CONFIG_NAME} does not list {', '.join(missing)}: add what `radar dev` should show"]


def _union(first: Sequence[str], second: Sequence[str]) -> list[str]:
    return list(dict.fromkeys([*first, *second]))


def _human(base: Workspace, benchmark: str, benchmarks: Container[str], options: AuditOptions) -> dict[str, Any]:
    """The sources of human correlations of the benchmarks that are there, with that of `--human` for this one."""
    known: dict[str, Any] = {
        name: section and section.model_dump() for name, section in base.human.items() if name in benchmarks
    }
    if options.human is not None:
        source = named_source(options.human, options.raters)
        file = None if source.file is None else _relative(source.file, base.root)
        known[benchmark] = {"published": source.published, "file": file, "raters": source.raters}
    elif options.raters != "all":
        raise BadInputError("--raters needs --human FILE: it chooses among the raters of that file")
    return known


def _audit(base: AuditSection, options: AuditOptions) -> AuditSection:
    """The workspace's audit settings, with the options in place of what they replace."""
    coupling, policy = base.coupling.model_dump(), base.policy.model_dump()
    if options.policy is not None:
        given = load_policy(options.policy)
        policy = given.model_dump(exclude={"thresholds"})
        coupling |= {"thresholds": given.thresholds.model_dump()} if given.thresholds else {}
    if options.gate is not None:
        coupling["gate"] = options.gate
    document: dict[str, Any] = {**base.model_dump(), "coupling": coupling, "policy": policy}
    if options.probes is not None:
        document["probes"] = options.probes
    if options.tasks is not None:
        document["tasks"] = _tasks(options.tasks)
    return validated(AuditSection, document)


def _tasks(text: str) -> int | list[str]:
    """`3` is the first three tasks; `refund-reply,poem` are these two."""
    if text.strip().isascii() and text.strip().isdigit():
        if int(text) == 0:
            raise BadInputError("--tasks 0: expected at least one task")
        return int(text)
    ids = [part.strip() for part in text.split(",") if part.strip()]
    if not ids:
        raise BadInputError("--tasks is empty; expected a number or task ids separated by commas")
    return ids


def load_policy(path: Path) -> PolicyFile:
    """Read a policy file; BadInputError names file, line, place and expectation."""
    return validate_document(PolicyFile, load_yaml_mapping(path), path)


def coupling_settings(given: Mapping[str, Any], policy: PolicyFile | None) -> CouplingSettings:
    """Settings from the options that were given (None where they were not) and a policy file's thresholds."""
    document = {name: value for name, value in given.items() if value is not None}
    if policy is not None and policy.thresholds is not None:
        document["thresholds"] = policy.thresholds.model_dump()
    return validated(CouplingSettings, document)


def validated(model: type[_Model], document: Mapping[str, Any]) -> _Model:
    """A pydantic model from values that came from options; BadInputError names the option."""
    try:
        return model.model_validate(document)
    except ValidationError as error:
        faults = [f"--{fault['loc'][-1] if fault['loc'] else 'option'}: {_said(fault)}" for fault in error.errors()]
        raise BadInputError("\n".join(faults)) from None


def _said(fault: Any) -> str:
    message = str(fault["msg"]).removeprefix("Value error, ")
    shown = fault["input"]
    return message if isinstance(shown, (Mapping, list, tuple, BaseModel)) else f"{message}, found {shown!r:.80}"


def _changed(workspace: Workspace, **changes: Any) -> Workspace:
    """The workspace with other values, validated as a whole again."""
    changed = validated(Workspace, {**workspace.model_dump(), **changes})
    return changed.model_copy(update={"root": workspace.root})


def _as_yaml(workspace: Workspace) -> str:
    import yaml

    document = workspace.model_dump(mode="json", exclude_defaults=True, exclude={"budget_usd"})  # of one audit only
    document |= {
        "benchmarks": dict(workspace.benchmarks),
        "models": {alias: _short(spec) for alias, spec in workspace.models.items()},
        "generators": list(workspace.generators),
        "verifiers": list(workspace.verifiers),
    }
    if isinstance(workspace.audit.tasks, tuple) and len(workspace.benchmarks) > 1:
        # Ids of one benchmark's tasks would make every other benchmark of the file unreadable.
        document.get("audit", {}).pop("tasks", None)
    return _HEADER + yaml.safe_dump(document, sort_keys=False, allow_unicode=True)


def _short(spec: ModelSpec) -> Any:
    return spec.model if spec == ModelSpec(model=spec.model) else spec.model_dump()
