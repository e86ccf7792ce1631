"""What a judgement costs beside the bare SDK: processor time, calls per second and memory, in one run.

Usage: python benchmarks/hosted_calls.py [--quick] [--repeats 3] [--others python] [--many 100000]

Radar's figure is `Door.judge` from end to end, with rendering, key, claim, schedule, reading and the row in the ledger;
the others send the same prompts and look for a score in the reply. The server is the tests' stub, in a process of its
own and with a fixed latency. Each contestant runs in a fresh process, all of them in turn; figures are medians over the
repetitions, ratios are to the loop over the bare SDK of the same protocol. `--others` names the Python of an
environment with autorubric and litellm, to have those in the table too. `--many` tells how much memory so many waiting
calls take.

"of ideal" is calls × latency / concurrency over the time it took; "of rounds" counts the last round as a whole one,
which nobody can be faster than. On a machine that does other things, both tell more of the machine than of the
contestant.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parent.parent / "tests"))

from _hosted_contestants import WARM_UP, Job, Prompt, judgements
from stub_server import StubProcess

from radar_dagster.models.templates import RenderOptions, render

#: What each is compared with.
BASES = {"radar, anthropic": "anthropic SDK", "anthropic SDK": "anthropic SDK"}
BASE = "openai SDK"
#: The two that everything is about come first and last, so that a change of the machine's mood hits them both.
OPENAI = (BASE, "aiohttp", "radar, openai")
ANTHROPIC = ("anthropic SDK", "radar, anthropic")
OTHERS = ("litellm", "autorubric")
GOAL_RATIO, GOAL_SHARE = 1.3, 0.95


@dataclass(frozen=True)
class Setting:
    """One line of the plan."""

    latency_s: float
    concurrency: int
    calls: int
    contestants: tuple[str, ...] = OPENAI

    @property
    def ideal_s(self) -> float:
        """How long it takes when every place is always taken."""
        return self.calls * self.latency_s / self.concurrency

    @property
    def rounds_s(self) -> float:
        """The same where the last round is waited for although it is not full: nobody can be faster."""
        return math.ceil(self.calls / self.concurrency) * self.latency_s


SETTINGS = (
    Setting(0.05, 8, 800),
    Setting(0.05, 32, 2_000, OPENAI + ANTHROPIC + OTHERS),
    Setting(0.05, 128, 2_000),
    Setting(1.0, 8, 40),
    Setting(1.0, 32, 320),
    Setting(1.0, 128, 2_000),
)
QUICK = (Setting(0.05, 32, 400, OPENAI + ANTHROPIC + OTHERS), Setting(1.0, 128, 512))


def prompts(number: int) -> list[Prompt]:
    """What radar says of so many requests."""
    made = []
    for request in judgements(number):
        exchange = render(request, RenderOptions())
        system, user = (message.content for message in exchange.messages)
        criterion = f"{request.criterion.label}: {request.criterion.definition}"
        made.append(Prompt(system, user, dict(exchange.schema or {}), request.task.prompt, criterion, request.response))
    return made


def run(job: Job, python: str) -> dict[str, Any]:
    """One contestant in a process of its own."""
    command = [python, str(Path(__file__).with_name("_hosted_contestants.py"))]
    environment = {**os.environ, "LITELLM_LOCAL_MODEL_COST_MAP": "True"}  # else it is fetched
    done = subprocess.run(
        command, input=json.dumps(asdict(job)), capture_output=True, text=True, env=environment, check=False
    )
    if done.returncode:
        sys.exit(f"{job.contestant} failed:\n{done.stderr[-2000:]}")
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


#: By contestant, what each repetition came to.
Results = dict[str, list[dict[str, Any]]]


def measure(setting: Setting, repeats: int, others: str | None) -> Results:
    """All contestants of a setting, in turn."""
    names = [name for name in setting.contestants if others or name not in OTHERS]
    said = prompts(setting.calls + WARM_UP)
    rows: Results = {name: [] for name in names}
    with StubProcess(latency=setting.latency_s, keep_bodies=False) as server:
        for _ in range(repeats):
            for name in names:
                server.reset()
                own = () if name.startswith("radar") else said
                job = Job(name, server.url, setting.concurrency, setting.calls, own)
                result = run(job, others if others and name in OTHERS else sys.executable)
                rows[name].append({**result, "peak": server.counters()["peak"], "load": os.getloadavg()[0]})
    return rows


def ratio(found: Results, name: str) -> float:
    """Processor time beside the bare SDK's; the two of a repetition ran within a minute of each other."""
    pairs = zip(found[name], found[BASES.get(name, BASE)], strict=True)
    return statistics.median(row["cpu_s"] / base["cpu_s"] for row, base in pairs)


def median(found: Results, name: str, field: str) -> float:
    """Over the repetitions."""
    return statistics.median(row[field] for row in found[name])


def show(setting: Setting, found: Results) -> None:
    """The table of a setting."""
    loads = [row["load"] for rows in found.values() for row in rows]
    print(
        f"\nlatency {setting.latency_s:g} s, concurrency {setting.concurrency}, {setting.calls:,} calls; "
        f"load {min(loads):.1f} to {max(loads):.1f} on {os.cpu_count()} processors"
    )
    print(
        f"  {'':18}{'ms processor':>13}{'ratio':>7}{'calls/s':>9}{'of ideal':>10}{'of rounds':>11}"
        f"{'in flight':>11}{'MB before':>11}{'MB peak':>9}"
    )
    for name in found:
        wall, failed = median(found, name, "wall_s"), setting.calls - median(found, name, "ok")
        print(
            f"  {name:18}{median(found, name, 'cpu_s') / setting.calls * 1e3:13.2f}{ratio(found, name):6.2f}×"
            f"{setting.calls / wall:9.1f}{setting.ideal_s / wall:10.1%}{setting.rounds_s / wall:11.1%}"
            f"{median(found, name, 'peak'):11.0f}{median(found, name, 'before_mb'):11.0f}"
            f"{median(found, name, 'peak_mb'):9.0f}" + (f"  {failed:.0f} failed" if failed else "")
        )
        if "again_s" in found[name][0]:
            print(f"  {'  from the ledger':18}{median(found, name, 'again_s') / setting.calls * 1e3:13.2f}")


def show_memory(number: int) -> None:
    """Peak memory of a door that has so many calls to make and makes next to none of them."""
    with StubProcess(latency=0.05, keep_bodies=False) as server:
        row = run(Job("radar, openai", server.url, 8, number, deadline_s=0.5), sys.executable)
    print(
        f"\n{number:,} calls waiting: {row['peak_mb']:.0f} MB at the peak, {row['before_mb']:.0f} MB before, "
        f"requests included; {row['cpu_s'] / number * 1e3:.2f} ms processor per call to prepare them"
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="two settings, fewer calls, one repetition")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--others", metavar="PYTHON", help="has autorubric and litellm; they are left out without it")
    parser.add_argument("--many", type=int, default=0, metavar="CALLS", help="also: memory of so many waiting calls")
    options = parser.parse_args()
    started = time.perf_counter()
    repeats = 1 if options.quick else options.repeats
    ratios: list[float] = []
    share = 0.0
    for setting in QUICK if options.quick else SETTINGS:
        found = measure(setting, repeats, options.others)
        show(setting, found)
        ratios += [ratio(found, name) for name in found if name.startswith("radar")]
        share = setting.ideal_s / median(found, "radar, openai", "wall_s")
    if options.many:
        show_memory(options.many)
    verdict = "met" if max(ratios) <= GOAL_RATIO else "missed"
    print(
        f"\ngoal: at most {GOAL_RATIO}× the SDK's processor time, the ledger included: {verdict} ({max(ratios):.2f}×)"
    )
    if not options.quick:  # of fewer rounds, the first one is too large a part
        verdict = "met" if share >= GOAL_SHARE else "missed"
        print(f"goal: at least {GOAL_SHARE:.0%} of the ideal in the last setting: {verdict} ({share:.1%})")
    print(f"{repeats} repetition(s), {time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main()
