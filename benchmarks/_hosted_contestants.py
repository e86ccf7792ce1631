"""One way of making many judgement calls, measured in a process of its own; `hosted_calls.py` starts these.

Each contestant imports what it needs by itself, so that it also runs in an environment that holds nothing else. Every
one sends the same prompts to the same server, but for autorubric, which writes its own. All have made a few calls
before the clock starts: imports and whatever is done once per process are not measured.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from itertools import cycle, islice, product
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from radar_dagster.models.requests import JudgementRequest

MODEL = "judge"
RESPONSE_WORDS = 120
MOST_TOKENS = 1_000
WARM_UP = 8


@dataclass(frozen=True)
class Prompt:
    """What one call says. `task`, `criterion` and `response` are its parts, for those who write prompts themselves."""

    system: str
    user: str
    schema: dict[str, Any]
    task: str
    criterion: str
    response: str

    @property
    def messages(self) -> list[dict[str, str]]:
        """As OpenAI's protocol has it."""
        return [{"role": "system", "content": self.system}, {"role": "user", "content": self.user}]

    @property
    def response_format(self) -> dict[str, Any]:
        """OpenAI's structured output."""
        schema = {"name": "judgement", "strict": True, "schema": self.schema}
        return {"type": "json_schema", "json_schema": schema}


@dataclass(frozen=True)
class Job:
    """What a contestant is to do. Radar makes its prompts itself, from requests of the same numbers."""

    contestant: str
    url: str
    concurrency: int
    calls: int
    prompts: Sequence[Prompt] = ()
    #: Seconds after which radar starts no more calls: how much memory many works take shows before they are made.
    deadline_s: float | None = None


#: Makes one call; returns whether a score came back.
Ask = Callable[[Prompt], Awaitable[bool]]


def judgements(number: int) -> list[JudgementRequest]:
    """So many different requests: the shipped tasks, responses of the usual length, each judged on every criterion."""
    from radar_dagster.models.requests import JudgementRequest
    from radar_dagster.rubric.loading import benchmark_path, load_rubric

    rubric = load_rubric(benchmark_path("helpsteer2"))
    places = islice(cycle(product(rubric.tasks, rubric.criteria)), number)
    filler = " ".join(["considered"] * RESPONSE_WORDS)
    responses = [f"Response {place}: {filler}" for place in range(number // len(rubric.criteria) + 1)]
    return [
        JudgementRequest(task=task, criterion=criterion, response=responses[place // len(rubric.criteria)])
        for place, (task, criterion) in enumerate(places)
    ]


# The contestants.


@asynccontextmanager
async def openai_sdk(job: Job) -> AsyncIterator[Ask]:
    """The official SDK in a loop."""
    import openai

    async with openai.AsyncOpenAI(base_url=f"{job.url}/v1", api_key="none", max_retries=0) as client:

        async def ask(prompt: Prompt) -> bool:
            reply = await client.chat.completions.create(
                model=MODEL,
                messages=prompt.messages,
                temperature=0,
                max_tokens=MOST_TOKENS,
                response_format=prompt.response_format,
            )
            return has_score(reply.choices[0].message.content)

        yield ask


@asynccontextmanager
async def anthropic_sdk(job: Job) -> AsyncIterator[Ask]:
    """The official SDK in a loop."""
    import anthropic

    async with anthropic.AsyncAnthropic(base_url=job.url, api_key="none", max_retries=0) as client:

        async def ask(prompt: Prompt) -> bool:
            reply = await client.messages.create(
                model=MODEL,
                system=prompt.system,
                messages=[{"role": "user", "content": prompt.user}],
                max_tokens=MOST_TOKENS,
                output_config={"format": {"type": "json_schema", "schema": prompt.schema}},
            )
            return has_score(reply.content[0].text)

        yield ask


@asynccontextmanager
async def bare_aiohttp(job: Job) -> AsyncIterator[Ask]:
    """HTTP alone, with nothing of what an SDK does."""
    import aiohttp

    connector = aiohttp.TCPConnector(limit=job.concurrency)
    async with aiohttp.ClientSession(connector=connector) as session:

        async def ask(prompt: Prompt) -> bool:
            body = {
                "model": MODEL,
                "messages": prompt.messages,
                "temperature": 0,
                "max_tokens": MOST_TOKENS,
                "response_format": prompt.response_format,
            }
            async with session.post(f"{job.url}/v1/chat/completions", json=body) as response:
                reply = await response.json()
            return has_score(reply["choices"][0]["message"]["content"])

        yield ask


@asynccontextmanager
async def litellm_loop(job: Job) -> AsyncIterator[Ask]:
    """LiteLLM's own call in a loop."""
    import litellm

    async def ask(prompt: Prompt) -> bool:
        reply = await litellm.acompletion(
            model=f"openai/{MODEL}",
            api_base=f"{job.url}/v1",
            api_key="none",
            messages=prompt.messages,
            temperature=0,
            max_tokens=MOST_TOKENS,
            response_format=prompt.response_format,
            num_retries=0,
        )
        return has_score(reply.choices[0].message.content)

    yield ask


@asynccontextmanager
async def autorubric_grades(job: Job) -> AsyncIterator[Ask]:
    """autorubric with one criterion per grade, which is one call; it keeps no record unless it is asked for one."""
    from autorubric import LLMConfig, Rubric
    from autorubric.graders import CriterionGrader

    config = LLMConfig(
        model=f"openai/{MODEL}",
        api_base=f"{job.url}/v1",
        api_key="none",
        temperature=0,
        max_tokens=MOST_TOKENS,
        max_parallel_requests=job.concurrency,
    )
    grader = CriterionGrader(judge_model_config=config)

    async def ask(prompt: Prompt) -> bool:
        rubric = Rubric.from_dict([{"weight": 1.0, "requirement": prompt.criterion}])
        report = await rubric.grade(to_grade=prompt.response, grader=grader, query=prompt.task)
        return report.error is None

    yield ask


LOOPS: dict[str, Callable[[Job], AbstractAsyncContextManager[Ask]]] = {
    "openai SDK": openai_sdk,
    "anthropic SDK": anthropic_sdk,
    "aiohttp": bare_aiohttp,
    "litellm": litellm_loop,
    "autorubric": autorubric_grades,
}
PROTOCOLS = {"radar, openai": "openai", "radar, anthropic": "anthropic"}


# Measuring.


class Clock:
    """Time and processor time (of all threads, user and system) since it was made."""

    def __init__(self) -> None:
        self._wall, self._processor = time.perf_counter(), time.process_time()

    def read(self) -> dict[str, float]:
        """Seconds so far."""
        return {"wall_s": time.perf_counter() - self._wall, "cpu_s": time.process_time() - self._processor}


def memory() -> dict[str, float]:
    """Megabytes of this process: now and at its peak."""
    found = dict(re.findall(r"(VmRSS|VmHWM):\s+(\d+) kB", Path("/proc/self/status").read_text(encoding="utf-8")))
    return {"now_mb": int(found["VmRSS"]) / 1024, "peak_mb": int(found["VmHWM"]) / 1024}


def has_score(text: str | None) -> bool:
    """What the simplest of users would do with a reply."""
    return isinstance(json.loads(text or "{}").get("score"), int)


async def loop(job: Job) -> dict[str, Any]:
    """A loop over an SDK: a semaphore, and a task for each call."""
    slots = asyncio.Semaphore(job.concurrency)

    async with LOOPS[job.contestant](job) as ask:

        async def one(prompt: Prompt) -> bool:
            async with slots:
                return await ask(prompt)

        await asyncio.gather(*map(one, job.prompts[-WARM_UP:]))
        before, clock = memory(), Clock()
        good = await asyncio.gather(*map(one, job.prompts[: job.calls]))
        return {**clock.read(), "ok": sum(good), "before_mb": before["now_mb"], "peak_mb": memory()["peak_mb"]}


def radar(job: Job) -> dict[str, Any]:
    """The door, with everything that an audit does for a call; then once more, from the ledger."""
    from radar_dagster.models.door import Door
    from radar_dagster.models.endpoints import Endpoint
    from radar_dagster.models.naming import ModelSpec
    from radar_dagster.models.settings import DoorSettings

    endpoint = Endpoint(
        protocol=PROTOCOLS[job.contestant],
        base_url=job.url,
        concurrency=job.concurrency,
        deadline_s=job.deadline_s,
    )
    asked = judgements(job.calls + WARM_UP)
    with tempfile.TemporaryDirectory() as folder:
        settings = DoorSettings(
            models={"judge": ModelSpec(model=f"stub/{MODEL}"), "other": ModelSpec(model="stub/other")},
            endpoints={"stub": endpoint},
            ledger=str(Path(folder, "ledger.sqlite")),
        )
        door = Door(settings)
        if job.deadline_s is None:
            # Another model: how many calls the endpoint bears is to be found out by those that are measured.
            door.judge("other", asked[job.calls :])
        before, clock = memory(), Clock()
        calls = door.judge("judge", asked[: job.calls])
        result = {**clock.read(), "before_mb": before["now_mb"], "peak_mb": memory()["peak_mb"]}
        result["ok"] = sum(call.reply.score is not None for call in calls)
        again, clock = Door(settings), Clock()
        if job.deadline_s is None:
            again.judge("judge", asked[: job.calls])
            result["again_s"] = clock.read()["cpu_s"]
        return result


def main() -> None:
    """Do the job on standard input; print one line of JSON."""
    given = json.load(sys.stdin)
    given["prompts"] = [Prompt(**prompt) for prompt in given.get("prompts", ())]
    job = Job(**given)
    result = radar(job) if job.contestant in PROTOCOLS else asyncio.run(loop(job))
    print(json.dumps(result), flush=True)
    os._exit(0)  # LiteLLM's threads would be waited for


if __name__ == "__main__":
    main()
