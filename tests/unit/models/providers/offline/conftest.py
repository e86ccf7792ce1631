"""A small rubric of the tests' own, so that they say nothing about the shipped benchmarks."""

import signal
from collections.abc import Iterator

import pytest

from radar_dagster.models.naming import ModelSpec
from radar_dagster.models.providers import connect
from radar_dagster.models.providers.offline.editor import Editor
from radar_dagster.models.providers.offline.reader import Reader
from radar_dagster.models.requests import Direction, GenerationRequest, JudgementRequest
from radar_dagster.rubric.model import Criterion, Kind, Task

REPLY = """Dear Mr Oyelaran,

Thank you for your letter of 12 June. We have looked at the boiler in flat 14 and found a cracked valve. Because the \
part costs £86.40, the landlord pays for it and you owe nothing. Our plumber, Greta Lindholm, will come on 21 June \
between 9:00 and 11:30. However, she needs someone at home to let her in. If that day does not suit you, please call \
our office in Wexmoor before 18 June. The old valve will then be replaced within two hours.

Kind regards,
Tobias Renshaw"""

PARAGRAPH = (
    "The harbour of Velm closed its last shipyard in 1998. Since then, about 2,300 people have left the town, and many "
    "of its houses stand empty. In 2015 the council sold forty of them for one crown each. The buyers had to promise "
    "that they would repair the roofs within three years. By 2019 all but six had kept their word. However, the school "
    "still has fewer than 90 pupils, so its future is uncertain."
)

SOURCE = PARAGRAPH + (
    " The fish market opens at five in the morning. A ferry used to cross the bay twice a day. The lighthouse was "
    "painted red last summer. Visitors like the small museum of knots. Its keeper is a retired sailor."
)


@pytest.fixture
def a_minute_of_cpu() -> Iterator[None]:
    """Fail what computes for a minute. CPU time and far more than is needed: only another order of growth takes it."""

    def stop(*_: object) -> None:
        raise AssertionError("it took more than a minute of CPU time")

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, 60)
    yield
    signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    signal.signal(signal.SIGVTALRM, before)


@pytest.fixture
def reply_task() -> Task:
    return Task(id="boiler", prompt="Answer the tenant's letter about the boiler.", reference=REPLY)


@pytest.fixture
def summary_task() -> Task:
    return Task(id="velm", prompt="Summarise the article.", source=SOURCE, reference=PARAGRAPH)


@pytest.fixture
def tasks(reply_task: Task, summary_task: Task) -> tuple[Task, Task]:
    return reply_task, summary_task


@pytest.fixture
def editor() -> Editor:
    model = connect(ModelSpec(model="offline/editor"))
    assert isinstance(model, Editor)
    return model


@pytest.fixture
def reader() -> Reader:
    model = connect(ModelSpec(model="offline/reader"))
    assert isinstance(model, Reader)
    return model


@pytest.fixture
def make_probe(editor: Editor):
    def make(task: Task, criterion: Criterion, direction: Direction, sample: int = 1) -> str:
        request = GenerationRequest(task=task, criterion=criterion, direction=direction, sample=sample)
        text = editor.generate(request).text
        assert text is not None
        return text

    return make


@pytest.fixture
def score(reader: Reader):
    def judge(task: Task, criterion: Criterion, response: str) -> int:
        reply = reader.judge(JudgementRequest(task=task, criterion=criterion, response=response))
        assert reply.score is not None, reply
        return reply.score

    return judge


@pytest.fixture
def criterion():
    def make(label: str, definition: str, kind: Kind = Kind.EVALUATIVE, **more: object) -> Criterion:
        return Criterion.model_validate(
            {"id": label.lower(), "label": label, "definition": definition, "kind": kind, **more}
        )

    return make
