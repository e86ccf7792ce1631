"""The command line `radar`: its commands and their options.

Here: options and help only. Each command is a module beside this one, imported when it runs, so that `radar --help` is
quick. How a command ends is in `errors.py`, what it prints in `output.py`.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from typer.core import TyperGroup

from radar_dagster import __version__
from radar_dagster.cli.errors import run_guarded
from radar_dagster.cli.output import prepare_streams


class _Commands(TyperGroup):
    """The commands in the order of the help, each run so that its return value is the exit code."""

    def invoke(self, ctx: Any) -> Any:
        raise typer.Exit(run_guarded(lambda: int(super(_Commands, self).invoke(ctx) or 0)))


app = typer.Typer(
    name="radar",
    cls=_Commands,
    help="Audit the rubrics that LLM judges apply, before anybody trusts their scores.",
    epilog="Exit codes: 0 passed the policy, 1 policy violated, 2 bad input, 3 inconclusive, 4 operational failure.",
    no_args_is_help=True,
    # Rich's help takes 0.3 s longer than Typer's own, and its tracebacks print local variables.
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout, nothing else there.")]
Out = Annotated[Path | None, typer.Option("--out", metavar="DIR", help="Write tables (CSV, Parquet) and summary.json.")]
PageOut = Annotated[
    Path | None,
    typer.Option("--out", metavar="DIR", help="Write report.html, tables (CSV, Parquet) and summary.json."),
]
PolicyFile = Annotated[Path | None, typer.Option("--policy", metavar="FILE", help="When the audit passes, as YAML.")]
Human = Annotated[
    str | None,
    typer.Option(
        "--human", metavar="FILE|BENCHMARK", help="Compare with people: ratings, correlations, published ones."
    ),
]
Baselines = Annotated[bool, typer.Option("--baselines", help="The passive baselines too, which takes more calls.")]
RatersChoice = Annotated[
    Literal["all", "expert", "crowd"], typer.Option("--raters", help="Whose ratings of the --human file count.")
]
Gate = Annotated[float | None, typer.Option("--gate", help="Least self-effect for leakage to be read. [default: 0.4]")]

RubricName = Annotated[str, typer.Argument(metavar="RUBRIC", help="A rubric file, or a benchmark such as helpsteer2.")]
Generators = Annotated[
    list[str] | None,
    typer.Option("--generator", metavar="MODEL", help="Writes the probes: alias or provider/model; repeatable."),
]
Verifiers = Annotated[
    list[str] | None,
    typer.Option("--verifier", metavar="MODEL", help="Judges them: alias or provider/model; repeatable."),
]
Probes = Annotated[
    int | None,
    typer.Option("--probes", metavar="N", help="Probes per task, criterion and direction. [default: 3]"),
]
Budget = Annotated[
    float | None, typer.Option("--budget", metavar="USD", help="Start no call that could take the audit beyond this.")
]
Tasks = Annotated[
    str | None, typer.Option("--tasks", metavar="N|IDS", help="The first N tasks, or task ids with commas.")
]


def main() -> None:
    """Entry point of the console script."""
    prepare_streams()
    # Which of Dagster's parts are still in beta is the project's concern, not that of whoever audits a rubric.
    warnings.filterwarnings("ignore", message=r".* is currently in (beta|preview)")
    app()


def _version(wanted: bool) -> None:
    if wanted:
        sys.stdout.write(f"radar {__version__}\n")
        raise typer.Exit


@app.callback()
def _radar(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_version, help="Show the version.")
    ] = False,
) -> None:
    """Options before the command."""


@app.command()
def init(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where; the current folder if absent.")] = Path(),
    as_json: Json = False,
) -> int:
    """Make a workspace: radar.yaml, rubrics/example.yaml, .gitignore."""
    from radar_dagster.cli import init as command

    return command.run(folder, as_json=as_json)


@app.command()
def audit(
    *,
    rubric: RubricName,
    generator: Generators = None,
    verifier: Verifiers = None,
    probes: Probes = None,
    tasks: Tasks = None,
    gate: Gate = None,
    policy: PolicyFile = None,
    budget: Budget = None,
    human: Human = None,
    raters: RatersChoice = "all",
    baselines: Baselines = False,
    fresh: Annotated[bool, typer.Option("--fresh", help="Make probes and scores again, whatever is stored.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before calls that cost money.")] = False,
    out: PageOut = None,
    as_json: Json = False,
) -> int:
    """Audit a rubric: which criteria does the judge move together?"""
    from radar_dagster.cli import audit as command
    from radar_dagster.cli.workspace import AuditOptions

    options = AuditOptions(
        rubric, generator or (), verifier or (), probes, tasks, gate, policy, budget, human, raters, baselines
    )
    return command.run(options, fresh=fresh, yes=yes, out=out, as_json=as_json)


@app.command()
def plan(
    *,
    rubric: RubricName,
    generator: Generators = None,
    verifier: Verifiers = None,
    probes: Probes = None,
    tasks: Tasks = None,
    gate: Gate = None,
    policy: PolicyFile = None,
    budget: Budget = None,
    baselines: Baselines = False,
    corpus: Annotated[
        int | None, typer.Option("--corpus", metavar="ITEMS", min=1, help="Compare with judging so many items.")
    ] = None,
    as_json: Json = False,
) -> int:
    """Show the calls, tokens and money of an audit; spends nothing."""
    from radar_dagster.cli import plan as command
    from radar_dagster.cli.workspace import AuditOptions

    options = AuditOptions(
        rubric, generator or (), verifier or (), probes, tasks, gate, policy, budget, baselines=baselines
    )
    return command.run(options, corpus=corpus, as_json=as_json)


@app.command()
def coupling(
    *,
    scores: Annotated[Path, typer.Argument(metavar="SCORES", help="CSV, Parquet or JSONL; see docs/cli.md.")],
    scale: Annotated[str, typer.Option("--scale", metavar="MIN:MAX", help="Lowest and highest score.")] = "0:4",
    gate: Gate = None,
    interval: Annotated[
        Literal["t", "bootstrap"] | None, typer.Option("--interval", help="Kind of interval. [default: t]")
    ] = None,
    estimator: Annotated[
        Literal["mean_of_tasks", "pooled"] | None,
        typer.Option("--estimator", help="How leakage is averaged over tasks. [default: mean_of_tasks]"),
    ] = None,
    resamples: Annotated[
        int | None, typer.Option("--resamples", metavar="N", help="Bootstrap resamples. [default: 500]")
    ] = None,
    seed: Annotated[int | None, typer.Option("--seed", metavar="N", help="Seed of the bootstrap.")] = None,
    policy: PolicyFile = None,
    human: Human = None,
    raters: RatersChoice = "all",
    out: Out = None,
    as_json: Json = False,
) -> int:
    """Analyse scores of your own: the statistics of an audit alone."""
    from radar_dagster.cli import coupling as command

    given = {"gate": gate, "interval": interval, "estimator": estimator, "resamples": resamples, "seed": seed}
    return command.run(
        scores, scale=scale, given=given, policy_file=policy, human=human, raters=raters, out=out, as_json=as_json
    )


@app.command()
def validate(
    *,
    pairs: Annotated[Path, typer.Argument(metavar="PAIRS", help="CSV, Parquet or JSON; see docs/cli.md.")],
    human: Annotated[
        str, typer.Option("--human", metavar="FILE|BENCHMARK", help="Ratings, correlations, or published ones.")
    ],
    raters: RatersChoice = "all",
    out: Out = None,
    as_json: Json = False,
) -> int:
    """Compare pair values that you already have with people's correlations."""
    from radar_dagster.cli import validate as command

    return command.run(pairs, human=human, raters=raters, out=out, as_json=as_json)


@app.command()
def trace(
    *,
    benchmark: Annotated[str, typer.Argument(metavar="BENCHMARK")],
    pair: Annotated[str, typer.Argument(metavar="PAIR", help="generator~verifier")],
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="Id of the criterion that was pushed.")],
    target: Annotated[str, typer.Argument(metavar="TARGET", help="Id of the criterion that followed.")],
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=0, help="Probes shown, extremes first.")] = 6,
    as_json: Json = False,
) -> int:
    """Go from one leakage value down to the probes, scores and rationales behind it."""
    from radar_dagster.cli import trace as command

    return command.run(benchmark, pair, source, target, limit=limit, as_json=as_json)


@app.command()
def report(
    benchmark: Annotated[str | None, typer.Argument(metavar="BENCHMARK", help="As in radar.yaml.")] = None,
    pair: Annotated[
        str | None, typer.Argument(metavar="PAIR", help="generator~verifier; every cell if absent.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Copy the page there.")] = None,
    as_json: Json = False,
) -> int:
    """Make the HTML page again, from the scores that are stored."""
    from radar_dagster.cli import report as command

    return command.run(benchmark, pair, out=out, as_json=as_json)


@app.command()
def models(as_json: Json = False) -> int:
    """Ask every configured endpoint: reachable, capabilities, price, retirement."""
    from radar_dagster.cli import models as command

    return command.run(as_json=as_json)


@app.command()
def call(
    key: Annotated[str, typer.Argument(metavar="KEY", help="Its first digits, as the report has them, or all.")],
    as_json: Json = False,
) -> int:
    """Show every attempt at one call, as the ledger keeps it: messages, parameters, reply."""
    from radar_dagster.cli import call as command

    return command.run(key, as_json=as_json)


@app.command()
def injection(
    *,
    rubric: RubricName,
    verifier: Verifiers = None,
    tasks: Tasks = None,
    budget: Budget = None,
    as_json: Json = False,
) -> int:
    """Try to talk a judge into the top score: does it follow what a response tells it?"""
    from radar_dagster.cli import injection as command
    from radar_dagster.cli.workspace import AuditOptions

    options = AuditOptions(rubric, (), verifier or (), None, tasks or "1", None, None, budget)
    return command.run(options, as_json=as_json)


@app.command()
def check(as_json: Json = False) -> int:
    """Check the configuration: radar.yaml, rubrics, models."""
    from radar_dagster.cli import check as command

    return command.run(as_json=as_json)


@app.command()
def sql(
    query: Annotated[str | None, typer.Argument(metavar="QUERY", help="One SELECT; lists the views if absent.")] = None,
    as_csv: Annotated[bool, typer.Option("--csv", help="CSV on stdout.")] = False,
    as_json: Json = False,
) -> int:
    """Query the stored tables with DuckDB."""
    from radar_dagster.cli import sql as command

    return command.run(query, as_json=as_json, as_csv=as_csv)


@app.command()
def dev(
    host: Annotated[str, typer.Option("--host", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=1, max=65535, help="Port to listen on.")] = 3000,
    as_json: Json = False,
) -> int:
    """Open the Dagster UI on this workspace."""
    from radar_dagster.cli import dev as command

    return command.run(host=host, port=port, as_json=as_json)
