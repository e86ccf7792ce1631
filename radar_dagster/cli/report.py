"""`radar report`: the HTML page again, from the scores that are stored.

Not here: making the page (`assets/report.py`, `report/`).
"""

from __future__ import annotations

from pathlib import Path

from radar_dagster.assets.report import PAGE
from radar_dagster.cli import output
from radar_dagster.cli.errors import PASSED
from radar_dagster.cli.workspace import configured_cell
from radar_dagster.config import Workspace, current_workspace
from radar_dagster.errors import BadInputError
from radar_dagster.lake import Lake
from radar_dagster.partitions import BENCHMARK, PAIR, Pair, parse_pair
from radar_dagster.runs import Runner, open_instance


def run(benchmark: str | None, pair: str | None, *, out: Path | None, as_json: bool) -> int:
    """Compute the statistics and the page of one cell, or of every cell that has scores; makes no model call."""
    workspace, cells = _cells(benchmark, pair)
    if out is not None and len(cells) > 1:
        known = ", ".join(f"{name} {key.key}" for name, key in cells)
        raise BadInputError(f"--out takes one page; name one of {known}")
    if out is not None:
        output.check_folder(out.parent)
    lake = Lake(workspace.store_url)
    rows = []
    with open_instance(workspace) as instance:
        runner = Runner(workspace, instance, output.on_stderr)
        for name, key in cells:
            with output.results_only():
                cell = runner.report(name, key)
            rows.append({"benchmark": name, "pair": key.key, "report": lake.path("audit_report", cell.dims, PAGE)})
            if out is not None:
                output.write_file(out, lake.read_text("audit_report", PAGE, **cell.dims).encode("utf-8"))
                rows[-1]["report"] = str(out)
        for name in dict.fromkeys(name for name, _ in cells):
            runner.compare_cells(name)
    if as_json:
        output.print_json({"reports": rows})
    else:
        for row in rows:
            output.say(f"{row['benchmark']} {row['pair']}: {row['report']}")
    return PASSED


def _cells(benchmark: str | None, pair: str | None) -> tuple[Workspace, list[tuple[str, Pair]]]:
    """The named cell, or every cell of this workspace that has scores."""
    if (benchmark is None) != (pair is None):
        raise BadInputError("name the benchmark and the pair, as in: radar report helpsteer2 editor~reader")
    if benchmark is not None and pair is not None:
        workspace, dims = configured_cell(benchmark, pair)
        if not Lake(workspace.store_url).exists("scores", **dims):
            raise BadInputError(f"{benchmark} has no scores of {pair} yet: run `radar audit {benchmark}` first")
        return workspace, [(benchmark, parse_pair(pair))]
    workspace = current_workspace()
    known = {"~".join(names) for names in workspace.pairs()}
    stored = [
        (dims[BENCHMARK], parse_pair(dims[PAIR]))
        for dims in Lake(workspace.store_url).partitions("scores")
        if dims[BENCHMARK] in workspace.benchmarks and dims[PAIR] in known
    ]
    if not stored:
        raise BadInputError(f"{workspace.store_url} holds no scores yet: run `radar audit` first")
    return workspace, stored
