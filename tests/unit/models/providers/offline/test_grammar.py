"""The rules find planted errors and are silent on correct prose."""

import pytest

from radar_dagster.models.providers.offline.grammar import errors
from radar_dagster.models.providers.offline.segments import split
from radar_dagster.rubric.loading import benchmark_path, load_rubric, shipped_benchmarks


def found(text: str) -> set[str]:
    return set(errors(split(text)))


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("They was late.", "they was"),
        ("It cost a apple.", "a apple"),
        ("This is an report.", "an report"),
        ("We saw the the dog.", "the the"),
        ("We recieve letters.", "recieve"),
        ("The dogs was late.", "dogs was"),
        ("Because the trial were long, we left.", "trial were"),
        ("She put it into the of.", "the of"),
        ("He can goes home.", "can goes"),
        ("the letter came late yesterday.", "the (no capital)"),
    ],
)
def test_an_error_is_named(text: str, error: str) -> None:
    assert error in found(text)


@pytest.mark.parametrize(
    "text",
    [
        "A university, an hour, a uniform, an umbrella, an honest man, a one-off, a European.",
        "The results of the trial were clear, and the people are happy that that is so.",
        "If the association were causal, the police have said, she had had enough.",
        "An MRI of a CEO's knee takes an X-ray's time.",
    ],
)
def test_correct_sentences_pass(text: str) -> None:
    assert not found(text)


def test_edited_prose_passes() -> None:
    """About 6,000 words that people wrote and proof-read: one false alarm per thousand words at most."""
    tasks = [task for name in shipped_benchmarks() for task in load_rubric(benchmark_path(name)).tasks]
    texts = [text for task in tasks for text in (task.reference, task.source or task.prompt) if text]
    alarms = sum(sum(errors(split(text)).values()) for text in texts)
    assert alarms <= sum(len(text.split()) for text in texts) / 1000
