"""An audit as Dagster runs in this process: which runs a cell takes, in which order, and what came of them.

The command line and the tests go through here; `radar dev` shows the same runs afterwards. Nothing is computed here
that an asset does not compute.

Not here: which cells are wanted, and what is said of them (`cli/audit.py`).
"""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import dagster as dg
from filelock import FileLock, Timeout

from radar_dagster import jobs
from radar_dagster.checks import worker
from radar_dagster.config import Workspace
from radar_dagster.definitions import build_definitions
from radar_dagster.errors import OperationalError
from radar_dagster.lake import Lake
from radar_dagster.models.door import Door
from radar_dagster.models.ledger import Spent
from radar_dagster.models.replies import State
from radar_dagster.partitions import BENCHMARK, GENERATOR, PAIR, Pair, multi_key
from radar_dagster.resources.models import ModelsResource
from radar_dagster.stock import Stock

#: Told what starts now, in words.
Listener = Callable[[str], None]

_FRESH_FOR_S = 24 * 3600.0

_INSTANCE_YAML = """\
# Dagster's own settings for this workspace: https://docs.dagster.io/deployment/oss/dagster-yaml
telemetry:
  enabled: false
nux:
  enabled: false
"""


@dataclass(frozen=True)
class Cell:
    """What came of one pair on one benchmark: where a gate stopped the run, its descriptions."""

    benchmark: str
    pair: Pair
    stopped_by: tuple[str, ...]

    @property
    def dims(self) -> dict[str, str]:
        """The cell's partition in the lake."""
        return {BENCHMARK: self.benchmark, PAIR: self.pair.key}


@dataclass(frozen=True)
class FailedCheck:
    """An asset check that failed in a run; one that does not block is a warning. The partition is the run's."""

    asset: str
    partition: str
    description: str
    blocking: bool

    def concerns(self, cell: Cell) -> bool:
        """Whether the check looked at the probes or the scores of this cell."""
        return self.partition in (_probes_key(cell.benchmark, cell.pair.generator), multi_key(**cell.dims))


def _recent(file: Path) -> str | None:
    """The id in a file that was written within the last day; None if there is none."""
    try:
        written = file.stat().st_mtime
        return file.read_text(encoding="ascii").strip() if time.time() - written < _FRESH_FOR_S else None
    except (OSError, UnicodeDecodeError):
        return None


def _probes_key(benchmark: str, generator: str) -> str:
    return multi_key(**{BENCHMARK: benchmark, GENERATOR: generator})


def open_instance(workspace: Workspace) -> dg.DagsterInstance:
    """The workspace's Dagster instance, made on first use."""
    home = workspace.dagster_home
    home.mkdir(parents=True, exist_ok=True)
    settings = home / "dagster.yaml"
    if not settings.exists():
        settings.write_text(_INSTANCE_YAML, encoding="utf-8")
    return dg.DagsterInstance.from_config(str(home))


@contextmanager
def exclusive(workspace: Workspace, benchmark: str, listener: Listener) -> Iterator[None]:
    """Let one process at a time audit a benchmark and read back what came of it.

    Another policy on the same cell would otherwise put its verdict where this one is about to be read.
    """
    workspace.dagster_home.mkdir(parents=True, exist_ok=True)
    lock = FileLock(workspace.dagster_home / f"{benchmark}.lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        listener(f"{benchmark}: another audit of it is running; waiting for its end")
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


class Runner:
    """Runs the jobs of one workspace on one instance, in this process."""

    def __init__(self, workspace: Workspace, instance: dg.DagsterInstance, listener: Listener = lambda _: None) -> None:
        self.workspace = workspace
        self.lake = Lake(workspace.store_url)
        self._instance = instance
        self._listener = listener
        self._definitions = build_definitions(workspace)
        #: What the last audit's budget holds for, and what that session had spent before.
        self._budget_session = ""
        self._spent_before = Spent()

    def start_checks(self) -> None:
        """Let Great Expectations be imported, in its own process, while the audit runs; `check_data` asks it later."""
        worker.SHARED.start()

    def audit(
        self, benchmark: str, pairs: Iterable[Pair], *, fresh: bool = False, baselines: bool = False
    ) -> list[Cell]:
        """Audit a benchmark with each pair: rubric, probes of each generator, then scores to report of each pair.

        With `baselines`, passive responses are written and judged too, before the statistics. At the end the cells of
        the benchmark are put side by side.

        What the ledger or the stored tables answer is used again unless `fresh`. Whether the models can serve the
        rubric is for the caller to ask first (`stages.check_models`). Raises OperationalError if a run failed for
        another reason than a gate, if no call got through, or if the budget, which holds for all runs of the audit
        together, was spent.
        """
        pairs = list(pairs)
        self.start_checks()
        with self._session(benchmark, fresh=fresh):
            generators = list(dict.fromkeys(pair.generator for pair in pairs))
            self._write_probes(benchmark, generators, fresh=fresh)
            if baselines:
                self._make_baselines(benchmark, generators, pairs)
            cells = [self._cell(benchmark, pair, fresh=fresh) for pair in pairs]
            self.compare_cells(benchmark)
            return cells

    def write_probes(self, benchmark: str, generators: Sequence[str], *, fresh: bool = False) -> None:
        """Load the rubric and let each generator write its probes, unless they are there and current."""
        with self._session(benchmark, fresh=fresh):
            self._write_probes(benchmark, generators, fresh=fresh)

    @contextmanager
    def _session(self, benchmark: str, *, fresh: bool) -> Iterator[None]:
        """All runs meanwhile have one budget, and one idea of what is fresh.

        A fresh session that did not come to its end is taken up by the next one, so that nothing is paid twice; unless
        it is older than a day, when its answers are hardly fresh.
        """
        unfinished = self.workspace.dagster_home / f"{benchmark}.fresh"
        session = uuid.uuid4().hex
        if fresh:
            session = _recent(unfinished) or session
            unfinished.parent.mkdir(parents=True, exist_ok=True)
            unfinished.write_text(session, encoding="ascii")
        self._budget_session, self._spent_before = session, self._spent_in(session) if fresh else Spent()
        models = ModelsResource.of(self.workspace, session=session, fresh=fresh)
        self._definitions = build_definitions(self.workspace, {"models": models})
        yield
        if fresh:
            unfinished.unlink(missing_ok=True)

    def spent(self) -> tuple[Spent, Spent]:
        """What the hosted calls of the last audit came to: in this process, and in all that its budget holds for."""
        session = self._spent_in(self._budget_session)
        return session - self._spent_before, session

    def _spent_in(self, session: str) -> Spent:
        with Door(self.workspace.door, session=session) as door:
            return door.spent_in_session()

    def _write_probes(self, benchmark: str, generators: Sequence[str], *, fresh: bool) -> None:
        self.run_job(jobs.LOAD_RUBRICS, benchmark)
        for generator in generators:
            with self._stock(benchmark) as stock:
                are_there = not fresh and stock.has_probes(generator)
            if are_there:
                self._listener(f"{benchmark}: the probes of {generator} are there and current")
                continue
            self._listener(f"{benchmark}: {generator} writes the probes")
            self.run_job(jobs.AUDIT_PROBES, _probes_key(benchmark, generator))
            self._require_calls("probes", **{BENCHMARK: benchmark, GENERATOR: generator})

    def _make_baselines(self, benchmark: str, generators: Sequence[str], pairs: Sequence[Pair]) -> None:
        """What the ledger answers is used again, so only what is new is paid for."""
        without: set[str] = set()
        for generator in generators:
            self._listener(f"{benchmark}: {generator} answers the bare tasks, for the baselines")
            failed = self.run_job(jobs.GENERATE_PASSIVE, _probes_key(benchmark, generator))
            self._require_calls("passive_responses", **{BENCHMARK: benchmark, GENERATOR: generator})
            if self._left_out(failed, f"{benchmark}: no baselines of {generator}"):
                without.add(generator)
        for pair in (pair for pair in pairs if pair.generator not in without):
            self._listener(f"{benchmark}: {pair.verifier} judges the answers of {pair.generator} to the bare tasks")
            failed = self.run_job(jobs.JUDGE_PASSIVE, multi_key(**{BENCHMARK: benchmark, PAIR: pair.key}))
            self._require_calls("passive_scores", **{BENCHMARK: benchmark, PAIR: pair.key})
            self._left_out(failed, f"{benchmark}: no baselines of {pair.key}")

    def _left_out(self, failed: Sequence[FailedCheck], what: str) -> bool:
        """Tell which gate stopped the baselines, if one did."""
        reasons = [f"{check.asset}: {check.description}" for check in failed if check.blocking]
        for reason in reasons:
            self._listener(f"{what}, stopped by a gate: {reason}")
        return bool(reasons)

    def compare_cells(self, benchmark: str) -> None:
        """Put all audited cells of a benchmark side by side."""
        self.run_job(jobs.COMPARE_CELLS, benchmark)

    def report(self, benchmark: str, pair: Pair) -> Cell:
        """Compute the statistics and the report of a cell again, from the scores that exist. Gates are data here."""
        self.run_job(jobs.LOAD_HUMAN, benchmark)
        return self._report(benchmark, pair)

    def _report(self, benchmark: str, pair: Pair) -> Cell:
        key = multi_key(**{BENCHMARK: benchmark, PAIR: pair.key})
        self.run_job(jobs.ANALYSE_UNGATED, key)
        self.run_job(jobs.CHECK_COUPLING, key)  # so that the UI shows the gates of these tables, failed ones included
        return Cell(benchmark, pair, ())

    def check_data(self, cells: Sequence[Cell]) -> list[FailedCheck]:
        """Run the expectation suites on the cells' probes and scores; returns what failed, warnings included."""
        failed: list[FailedCheck] = []
        for benchmark, generator in dict.fromkeys((cell.benchmark, cell.pair.generator) for cell in cells):
            failed += self.run_job(jobs.CHECK_PROBES, _probes_key(benchmark, generator))
        for cell in cells:
            failed += self.run_job(jobs.CHECK_SCORES, multi_key(**cell.dims))
        return failed

    @contextmanager
    def _stock(self, benchmark: str) -> Iterator[Stock]:
        """What is there of the benchmark's audits already."""
        with Door(self.workspace.door) as door:
            yield Stock(self.workspace, benchmark, self.workspace.rubric(benchmark), door)

    def _require_calls(self, table: str, **dims: str) -> None:
        """OperationalError when the budget was spent before a table's calls were made, or when none got through."""
        rows = self.lake.read(table, **dims)
        where = " ".join(dims.values())
        stopped = int((rows["state"] == State.BUDGET_STOPPED).sum())
        if stopped:
            raise OperationalError(
                f"the budget of ${self.workspace.budget_usd:g} was spent before {stopped:,} calls for the {table} of "
                f"{where} were made; what is done is in the ledger: run the same command with a larger --budget"
            )
        called = rows[rows["state"] != State.NO_PROBE]
        if len(called) and (called["state"] == State.TRANSPORT_ERROR).all():
            raise OperationalError(
                f"no call for the {table} of {where} got through; the last one: {called['detail'].iloc[-1]}"
            )

    def _cell(self, benchmark: str, pair: Pair, *, fresh: bool) -> Cell:
        key = multi_key(**{BENCHMARK: benchmark, PAIR: pair.key})
        with self._stock(benchmark) as stock:
            are_there = not fresh and stock.has_scores(pair)
        if not are_there:
            self._listener(f"{benchmark}: {pair.verifier} judges the probes of {pair.generator}")
            failed = self.run_job(jobs.AUDIT_PAIR, key)
            self._require_calls("scores", **{BENCHMARK: benchmark, PAIR: pair.key})
        else:
            self._listener(f"{benchmark}: the scores of {pair.verifier} are there and current")
            failed = self.run_job(jobs.ANALYSE, key)
        stopped_by = tuple(f"{check.asset}: {check.description}" for check in failed if check.blocking)
        if stopped_by:
            # The gate is data too: the page that says why nothing can be read is made in a run of its own.
            self._report(benchmark, pair)
        return Cell(benchmark, pair, stopped_by)

    def run_job(self, job: str, partition_key: str) -> list[FailedCheck]:
        """Run a job on a partition; returns the checks that failed.

        OperationalError when the run failed and no blocking check says why, KeyboardInterrupt when Ctrl-C ended it.
        """
        result = self._definitions.resolve_job_def(job).execute_in_process(
            # Not `partition_key=`: its definition is looked for among the job's assets, and a job of checks has none.
            tags={"dagster/partition": partition_key},
            instance=self._instance,
            raise_on_error=False,
            run_config={"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}},
        )
        failed = [
            FailedCheck(
                asset=evaluation.asset_check_key.asset_key.to_user_string(),
                partition=partition_key,
                description=evaluation.description or evaluation.check_name,
                blocking=bool(evaluation.blocking) and evaluation.severity is dg.AssetCheckSeverity.ERROR,
            )
            for evaluation in result.get_asset_check_evaluations()
            if not evaluation.passed
        ]
        if _interrupted(result):
            raise KeyboardInterrupt
        if not result.success and not any(check.blocking for check in failed):
            raise OperationalError(_failure(job, partition_key, result))
        return failed


def _interrupted(result: dg.ExecuteInProcessResult) -> bool:
    """Whether Ctrl-C ended the run: Dagster records it as a failed step and returns."""
    errors = [event.step_failure_data.error for event in result.all_events if event.is_step_failure]
    return any("DagsterExecutionInterruptedError" in error.to_string() for error in errors if error)


def _failure(job: str, partition_key: str, result: dg.ExecuteInProcessResult) -> str:
    events = [event for event in result.all_events if event.is_step_failure]
    if not events:
        return f"the run {job} of {partition_key} failed (run {result.run_id})"
    error = events[0].step_failure_data.error
    cause = (error.cause or error) if error else None
    said = re.sub(r"^radar_dagster\.errors\.\w+: ", "", cause.message.strip()) if cause else "no reason given"
    return f"{events[0].step_key} of {partition_key} failed: {said} (run {result.run_id})"
