"""The workspace file radar.yaml as pydantic models: which rubrics, which models, which settings, which policy.

Here: the shape of the file and how it is found. Not here: anything that acts on it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from radar_dagster.errors import BadInputError
from radar_dagster.models.endpoints import Endpoint
from radar_dagster.models.naming import PROGRAMMATIC, ModelSpec
from radar_dagster.models.prices import Price
from radar_dagster.models.settings import LEDGER_VARIABLE, DoorSettings
from radar_dagster.rubric.loading import (
    Location,
    benchmark_path,
    load_rubric,
    load_yaml_mapping,
    shipped_benchmarks,
    validate_document,
)
from radar_dagster.rubric.model import Rubric, Slug
from radar_dagster.stats.settings import CouplingSettings, Policy

CONFIG_NAME = "radar.yaml"
#: Where the command line keeps a workspace when no radar.yaml is in sight.
IMPLICIT_FOLDER = ".radar"
#: Names the folder of the workspace for processes that are started elsewhere, such as Dagster's code server.
WORKSPACE_VARIABLE = "RADAR_WORKSPACE"

DEFAULT_MODELS = {"editor": ModelSpec(model="offline/editor"), "reader": ModelSpec(model="offline/reader")}

_CRON = re.compile(r"^([0-9*/,-]+\s+){3}[0-9A-Za-z*/,-]+\s+[0-9A-Za-z*/,#-]+$")


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class AuditSection(_Section):
    """How probes are drawn and how the statistics are computed; see docs/statistics.md."""

    probes: int = Field(default=3, ge=1, le=1000, description="probes per (task, criterion, direction)")
    passive_responses: int = Field(default=10, ge=2, le=1000, description="passive responses per task and baseline")
    tasks: tuple[str, ...] | Annotated[int, Field(ge=1, strict=True)] | None = Field(
        default=None, description="task ids, or the first so many; all if absent"
    )
    coupling: CouplingSettings = CouplingSettings()
    policy: Policy = Policy()


class HumanSection(_Section):
    """Where people's correlations of a benchmark's criteria come from: published ones, or a file; one of the two."""

    #: A shipped benchmark, whose published vector is taken.
    published: Slug | None = None
    #: Ratings, or finished correlations (criterion_a, criterion_b, pearson_r); see docs/human-reference.md.
    file: str | None = None
    raters: Literal["all", "expert", "crowd"] = "all"
    #: criterion id -> column of the file, where names don't match by themselves.
    columns: dict[str, str] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.published is None) == (self.file is None):
            raise ValueError("expected either file or published")
        if self.published is not None and self.published not in shipped_benchmarks():
            raise ValueError(f"nothing is published for {self.published!r}; only for {', '.join(shipped_benchmarks())}")
        return self


class ScheduleSection(_Section):
    """Pairs that are judged again on a cron; off until it is switched on in the Dagster UI."""

    cron: str = "0 6 * * 1"
    timezone: str = "UTC"
    #: `generator~verifier` keys; empty means every pair.
    production_pairs: tuple[str, ...] = ()
    #: Scores older than this show as overdue in the UI, once production pairs are named.
    max_age_days: float = Field(default=8, gt=0)

    @field_validator("cron")
    @classmethod
    def _cron(cls, value: str) -> str:
        if not _CRON.match(value):  # whether each number is in range, Dagster says when it builds the schedule
            raise ValueError("expected five cron fields (minute hour day month weekday)")
        return value

    @field_validator("timezone")
    @classmethod
    def _timezone(cls, value: str) -> str:
        try:
            ZoneInfo(value)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            raise ValueError("expected an IANA time zone such as Europe/Berlin") from None
        return value


class SensorSection(_Section):
    """What sensors may request; they are off until they are switched on in the Dagster UI."""

    max_probe_calls: int = Field(default=2000, ge=0, description="generation calls a benchmark for a changed rubric")


class Workspace(_Section):
    """radar.yaml. `root` is the folder it lies in: relative paths in it start there."""

    root: Path = Field(default=Path(), exclude=True)
    store: str = f"{IMPLICIT_FOLDER}/lake"
    #: benchmark name -> path of its rubric file; a shipped benchmark has none.
    benchmarks: dict[Slug, str | None] = Field(default_factory=lambda: dict.fromkeys(shipped_benchmarks()))
    #: benchmark -> what people say of its criteria. Shipped benchmarks have published correlations; null drops them.
    human: dict[Slug, HumanSection | None] = Field(default_factory=dict)
    models: dict[Slug, ModelSpec] = Field(default_factory=lambda: dict(DEFAULT_MODELS))
    generators: tuple[Slug, ...] = ("editor",)
    verifiers: tuple[Slug, ...] = ("reader",)
    allow_self_pairs: bool = False
    #: name -> where models named `name/…` are reached; `openai` and `anthropic` exist without an entry.
    endpoints: dict[Slug, Endpoint] = Field(default_factory=dict)
    #: `endpoint/model`, or a pattern of such -> USD per million tokens, in place of the price library's.
    prices: dict[str, Price] = Field(default_factory=dict)
    #: A file, or the URL of a PostgreSQL database; the environment variable RADAR_LEDGER comes first.
    ledger: str = f"{IMPLICIT_FOLDER}/ledger.sqlite"
    #: No run starts a call that could take it beyond this; no limit if absent.
    budget_usd: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    audit: AuditSection = AuditSection()
    schedule: ScheduleSection = ScheduleSection()
    sensors: SensorSection = SensorSection()

    @model_validator(mode="before")
    @classmethod
    def _models_where_they_are_used(cls, document: Any) -> Any:
        """Accept `verifiers: {ours: python/judges:score}`: one line that names a model and gives it its role."""
        if not isinstance(document, dict):
            return document
        document = dict(document)
        inline = {role: document[role] for role in ("generators", "verifiers") if isinstance(document.get(role), dict)}
        if not inline:
            return document
        models = document.get("models", {})
        for role, named in inline.items():
            document[role] = list(named)
            models = _merged(models, named, role)
        if "models" not in document and isinstance(models, dict):
            models = {**DEFAULT_MODELS, **models}  # the other role may still be the default one
        return {**document, "models": models}

    @field_validator("benchmarks", mode="before")
    @classmethod
    def _benchmark_list(cls, value: Any) -> Any:
        """Accept `[helpsteer2, rubrics/mine.yaml]` beside the mapping of names to paths."""
        if not isinstance(value, list):
            return value
        entries = [_benchmark_entry(item) for item in value]
        names = [name for name, _ in entries]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"benchmark {twice[0]!r} is listed twice")
        return dict(entries)

    @field_validator("human", mode="before")
    @classmethod
    def _human_shorthand(cls, value: Any) -> Any:
        """Accept `mine: ratings.csv` beside `mine: {file: ratings.csv, raters: expert}`."""
        if not isinstance(value, dict):
            return value
        return {name: {"file": entry} if isinstance(entry, str) else entry for name, entry in value.items()}

    @field_validator("endpoints")
    @classmethod
    def _names_of_their_own(cls, value: dict[str, Endpoint]) -> dict[str, Endpoint]:
        taken = sorted(set(value) & set(PROGRAMMATIC))
        if taken:
            raise ValueError(f"the name {taken[0]!r} is taken: {taken[0]}/… are models without an endpoint")
        return value

    @field_validator("ledger")
    @classmethod
    def _no_password(cls, value: str) -> str:
        if "://" in value and urlsplit(value).password:
            raise ValueError(f"holds a password; keep it out of the file and set the variable {LEDGER_VARIABLE}")
        return value

    @field_validator("models", mode="before")
    @classmethod
    def _model_shorthand(cls, value: Any) -> Any:
        """Accept `reader: offline/reader` beside `reader: {model: offline/reader, options: {…}}`."""
        if not isinstance(value, dict):
            return value
        return {alias: {"model": spec} if isinstance(spec, str) else spec for alias, spec in value.items()}

    @model_validator(mode="after")
    def _known_aliases(self) -> Self:
        for role, aliases in (("generators", self.generators), ("verifiers", self.verifiers)):
            unknown = [alias for alias in aliases if alias not in self.models]
            if unknown:
                raise ValueError(f"{role} names {unknown[0]!r}, but models has only {', '.join(self.models)}")
            if len(set(aliases)) != len(aliases):
                raise ValueError(f"{role} lists an alias twice")
            if not aliases:
                raise ValueError(f"{role} must name at least one model")
        if not self.benchmarks:
            raise ValueError("benchmarks must name at least one rubric")
        unknown = [name for name in self.human if name not in self.benchmarks]
        if unknown:
            raise ValueError(f"human names {unknown[0]!r}, but the benchmarks are {', '.join(self.benchmarks)}")
        if not self.pairs():
            raise ValueError("every pair is a self-pair; add a model or set allow_self_pairs: true")
        known = {"~".join(pair) for pair in self.pairs()}
        strangers = [key for key in self.schedule.production_pairs if key not in known]
        if strangers:
            raise ValueError(f"production_pairs names {strangers[0]!r}, but the pairs are {', '.join(sorted(known))}")
        return self

    def pairs(self) -> list[tuple[str, str]]:
        """(generator, verifier) aliases; a model judging its own text is left out unless `allow_self_pairs`."""
        return [
            (generator, verifier)
            for generator in self.generators
            for verifier in self.verifiers
            if self.allow_self_pairs or self.models[generator].identity != self.models[verifier].identity
        ]

    def rubric(self, benchmark: str) -> Rubric:
        """Load a benchmark's rubric with the configured selection of tasks."""
        rubric = load_rubric(self.rubric_path(benchmark)).model_copy(update={"name": benchmark})
        tasks = self.audit.tasks
        if tasks is None:
            return rubric
        if isinstance(tasks, int):
            return rubric.model_copy(update={"tasks": rubric.tasks[:tasks]})
        known = {task.id for task in rubric.tasks}
        unknown = [task for task in tasks if task not in known]
        if unknown:
            raise BadInputError(
                f"{self.rubric_path(benchmark)}: no task {unknown[0]!r}; there are {', '.join(sorted(known))}"
            )
        return rubric.with_tasks(tasks)

    def rubric_path(self, benchmark: str) -> Path:
        """The file of a configured benchmark; BadInputError when it is not configured."""
        if benchmark not in self.benchmarks:
            raise BadInputError(f"no benchmark {benchmark!r} in {CONFIG_NAME}; there are {', '.join(self.benchmarks)}")
        path = self.benchmarks[benchmark]
        return benchmark_path(benchmark) if path is None else self.root / path

    def human_section(self, benchmark: str) -> HumanSection | None:
        """Where people's correlations for a benchmark come from; None where there are none."""
        if benchmark in self.human:
            return self.human[benchmark]
        is_shipped = benchmark in self.benchmarks and self.benchmarks[benchmark] is None
        return HumanSection(published=benchmark) if is_shipped else None

    @property
    def store_url(self) -> str:
        """The lake's root: an absolute path, or the URL (`s3://…`) as configured."""
        return self.store if "://" in self.store else str((self.root / self.store).resolve())

    @property
    def door(self) -> DoorSettings:
        """What the door for model calls is opened with."""
        return DoorSettings(
            models=dict(self.models),
            plugins=self.root,
            endpoints=dict(self.endpoints),
            prices=dict(self.prices),
            ledger=self.ledger if "://" in self.ledger else str((self.root / self.ledger).resolve()),
            budget_usd=self.budget_usd,
        )

    @property
    def dagster_home(self) -> Path:
        """Where this workspace's Dagster instance keeps its runs and events."""
        return (self.root / IMPLICIT_FOLDER / "dagster").resolve()


def _merged(models: Any, named: dict[Any, Any], role: str) -> Any:
    """`models` with those that a role defines itself; an alias may stand for one model only."""
    if not isinstance(models, dict):
        return models
    for alias, spec in named.items():
        if alias in models and models[alias] != spec:
            raise ValueError(f"{role} and models give {alias!r} two different models")
    return {**models, **named}


def _benchmark_entry(item: Any) -> tuple[str, str | None]:
    if not isinstance(item, str):
        raise ValueError(f"a benchmark is a shipped name or the path of a rubric file, found {item!r:.80}")
    if item in shipped_benchmarks():
        return item, None
    return Path(item).stem.lower(), item


def load_workspace(path: Path) -> Workspace:
    """Read a radar.yaml; BadInputError names file, line, place and expectation."""
    document = load_yaml_mapping(path)
    if "root" in document:  # a field of the model, but never the file's to set
        raise BadInputError(f"{path}: root: unknown key: paths are relative to the file's own folder")
    workspace = validate_document(Workspace, document, path, lambda place: _as_written(document, place))
    # The implicit workspace lies inside .radar itself; paths in it are relative to the folder that holds .radar.
    root = path.resolve().parent
    return workspace.model_copy(update={"root": root.parent if root.name == IMPLICIT_FOLDER else root})


def _as_written(document: Mapping[str, Any], place: Location) -> Location:
    """Where a place of `models` stands in the file: perhaps under the role for which the model is defined."""
    head, alias = place[:1], place[1:2]
    if head != ("models",) or not alias:
        return place
    holders = [name for name in ("models", "generators", "verifiers") if isinstance(document.get(name), dict)]
    return next(((name, *place[1:]) for name in holders if alias[0] in document[name]), place)


def find_workspace_file(start: Path) -> Path | None:
    """The nearest radar.yaml (or `.radar/radar.yaml`) in `start` or a folder above it; None if there is none."""
    for folder in (start, *start.parents):
        for candidate in (folder / CONFIG_NAME, folder / IMPLICIT_FOLDER / CONFIG_NAME):
            if candidate.is_file():
                return candidate
    return None


def workspace_file() -> Path | None:
    """The radar.yaml in charge: the one that `RADAR_WORKSPACE` names, else the nearest; None if there is none."""
    start = _start()
    return start if start.is_file() else find_workspace_file(start)


def current_workspace() -> Workspace:
    """This process's workspace: that of `workspace_file()`, else the defaults in the folder where the search began."""
    found = workspace_file()
    return load_workspace(found) if found else Workspace(root=_start())


def _start() -> Path:
    """The file or folder at which the search for radar.yaml begins."""
    named = os.environ.get(WORKSPACE_VARIABLE)
    if named and not Path(named).exists():
        raise BadInputError(f"{WORKSPACE_VARIABLE} is {named}, which does not exist")
    return (Path(named) if named else Path.cwd()).resolve()
