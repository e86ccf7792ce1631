"""The editor: deterministic, different for every sample, edits what the criterion asks for, and says what it did."""

import re
from collections import Counter

import pytest

from radar_dagster.errors import BadInputError
from radar_dagster.models.naming import ModelSpec
from radar_dagster.models.providers import ChecksRubric, Generator, Responder, Verifier, connect
from radar_dagster.models.requests import DIRECTIONS, GenerationRequest, JudgementRequest, ResponseRequest
from radar_dagster.rubric.model import Criterion, Kind, Rubric, Task, content_hash

CRITERIA = {
    "order": ("Coherence", "The sentences come in a logical order."),
    "facts": ("Truthfulness", "All figures and names are correct."),
    "content": ("Completeness", "Nothing of importance is missing."),
    "words": ("Wordiness", "How long the text is.", Kind.DESCRIPTIVE),
    "language": ("Grammar", "Free of spelling and grammar errors."),
    "unknown": ("Mentions a deposit", "The reply mentions the security deposit and the garage key."),
}
NAMES = list(CRITERIA)


def request(task: Task, criterion: Criterion, direction: str = "-", sample: int = 1) -> GenerationRequest:
    return GenerationRequest.model_validate(
        {"task": task, "criterion": criterion, "direction": direction, "sample": sample}
    )


def test_it_is_a_generator_and_no_verifier(editor) -> None:
    assert isinstance(editor, Generator)
    assert isinstance(editor, ChecksRubric)
    assert not isinstance(editor, Verifier)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_a_request_has_one_answer_and_samples_have_different_ones(editor, criterion, tasks, name, direction) -> None:
    for task in tasks:
        asked = [request(task, criterion(*CRITERIA[name]), direction, sample) for sample in range(1, 13)]
        replies = [editor.generate(one) for one in asked]
        assert [editor.generate(one) for one in asked] == replies
        assert len({reply.text for reply in replies}) == 12
        assert all(reply.detail for reply in replies)


def test_another_seed_is_another_editor(criterion, reply_task) -> None:
    asked = request(reply_task, criterion(*CRITERIA["order"]))
    texts = {connect(ModelSpec(model="offline/editor", options={"seed": s})).generate(asked).text for s in range(4)}
    assert len(texts) == 4


def test_good_answers_keep_nearly_all_words_of_the_reference(make_probe, criterion, reply_task) -> None:
    assert reply_task.reference is not None
    wanted = Counter(re.findall(r"\w+", reply_task.reference.lower()))
    for name in ("order", "facts", "content", "language"):
        for sample in range(1, 7):
            probe = make_probe(reply_task, criterion(*CRITERIA[name]), "+", sample)
            kept = wanted & Counter(re.findall(r"\w+", probe.lower()))
            assert sum(kept.values()) >= 0.7 * sum(wanted.values())


def test_an_incoherent_answer_has_the_same_words_in_another_order(make_probe, criterion, reply_task) -> None:
    for sample in range(1, 7):
        bad = make_probe(reply_task, criterion(*CRITERIA["order"]), "-", sample)
        places = [bad.find(figure) for figure in ("12 June", "86.40", "21 June", "18 June", "two hours")]
        assert places != sorted(places)


def test_a_false_answer_has_other_figures_and_as_many(make_probe, criterion, reply_task) -> None:
    def figures(text: str) -> Counter[str]:
        return Counter(re.findall(r"\d[\d.:]*\d|\d", text))

    assert reply_task.reference is not None
    for sample in range(1, 7):
        probe = make_probe(reply_task, criterion(*CRITERIA["facts"]), "-", sample)
        assert sum((figures(probe) - figures(reply_task.reference)).values()) >= 1
        assert abs(sum(figures(probe).values()) - sum(figures(reply_task.reference).values())) <= 3


def test_an_incomplete_answer_loses_content_and_not_length(make_probe, criterion, reply_task) -> None:
    assert reply_task.reference is not None
    for sample in range(1, 7):
        probe = make_probe(reply_task, criterion(*CRITERIA["content"]), "-", sample)
        lost = [f for f in ("86.40", "21 June", "18 June", "9:00", "Wexmoor", "plumber", "valve") if f not in probe]
        assert len(lost) >= 3
        assert 0.6 <= len(probe.split()) / len(reply_task.reference.split()) <= 1.6


def test_a_wordy_answer_is_much_longer_than_a_terse_one(make_probe, criterion, reply_task) -> None:
    for sample in range(1, 7):
        long, short = (len(make_probe(reply_task, criterion(*CRITERIA["words"]), d, sample).split()) for d in "+-")
        assert long > 2 * short


def test_bad_grammar_leaves_words_that_no_dictionary_lists(make_probe, criterion, reply_task) -> None:
    from spellchecker import SpellChecker

    checker = SpellChecker()

    def unknown(text: str) -> int:
        return len(checker.unknown(w for w in re.findall(r"\b[a-z]{5,}\b", text)))

    good = sum(unknown(make_probe(reply_task, criterion(*CRITERIA["language"]), "+", s)) for s in range(1, 7))
    bad = sum(unknown(make_probe(reply_task, criterion(*CRITERIA["language"]), "-", s)) for s in range(1, 7))
    assert bad >= good + 15


def test_an_unknown_criterion_is_met_or_failed_by_its_own_words(make_probe, criterion, reply_task) -> None:
    unknown = criterion(*CRITERIA["unknown"])
    for sample in range(1, 7):
        assert "security deposit" in make_probe(reply_task, unknown, "+", sample)
        assert "deposit" not in make_probe(reply_task, unknown, "-", sample)
    boiler = criterion("Names the valve", "Says that the valve was cracked.")
    assert "valve" in make_probe(reply_task, boiler, "+")
    assert "valve" not in make_probe(reply_task, boiler, "-")


def test_words_are_listed_in_a_line_at_the_end_and_not_pressed_into_a_sentence(
    make_probe, criterion, reply_task
) -> None:
    vague = criterion("Warmth", "Friendly, patient and never curt.")
    probe = make_probe(reply_task, vague, "+")
    lines = [line for line in probe.splitlines() if re.search("Friendly|patient|curt", line)]
    assert len(lines) == 1
    assert re.fullmatch(r"[A-Z][a-z ]+: (?:Friendly|patient|curt)(?:, (?:Friendly|patient|curt))*", lines[0])


def test_nothing_is_added_to_a_good_answer_where_another_aspect_counts_more(editor, criterion, reply_task) -> None:
    mixed = criterion("Tariff accuracy", "The figures of the tariff are correct and nothing is invented.")
    for sample in range(1, 7):
        good = editor.generate(request(reply_task, mixed, "+", sample))
        assert "tariff" not in (good.text or "")
        assert "definition" not in (good.detail or "")


def test_what_should_be_avoided_is_missing_from_the_good_answer(make_probe, criterion, reply_task) -> None:
    avoid = criterion("No promises", "Does not mention the plumber.")
    assert "plumber" not in make_probe(reply_task, avoid, "+")
    assert "plumber" in make_probe(reply_task, avoid, "-")


def test_side_details_of_the_source_replace_the_main_matters(make_probe, criterion, summary_task) -> None:
    relevance = criterion("Relevance", "Holds what is important and leaves out side details.")
    probes = [make_probe(summary_task, relevance, "-", sample) for sample in range(1, 7)]
    details = ("fish market", "ferry", "lighthouse", "museum", "sailor")
    assert all(any(detail in probe for detail in details) for probe in probes)


def test_the_choice_of_edits_does_not_hang_on_the_criterion_id(editor, reply_task) -> None:
    notes = []
    for criterion_id in ("coherence", "criterion 7"):
        same = Criterion(id=criterion_id, label="Hanging together", definition="The sentences come in a logical order.")
        notes.append(editor.generate(request(reply_task, same)).detail)
    assert all("shuffled" in note for note in notes)


def test_a_rubric_without_references_is_refused_before_anything_is_made(editor, criterion) -> None:
    rubric = Rubric(
        name="mine",
        criteria=(criterion("A", "Alpha."), criterion("B", "Beta.")),
        tasks=(Task(id="good", prompt="p", reference="A text."), Task(id="bare", prompt="p")),
    )
    with pytest.raises(BadInputError, match=r"task 'bare' has no reference .* `reference:` .* another generator"):
        editor.check_rubric(rubric)
    editor.check_rubric(rubric.with_tasks(["good"]))
    assert editor.generate(request(rubric.task("bare"), rubric.criteria[0])).state == "refused"


def test_a_reference_beyond_all_reason_is_refused(editor, criterion) -> None:
    task = Task(id="huge", prompt="p", reference="A sentence of a text. " * 5_000)
    rubric = Rubric(name="mine", criteria=(criterion("A", "Alpha."), criterion("B", "Beta.")), tasks=(task,))
    with pytest.raises(BadInputError, match="'huge'.*at most 50,000"):
        editor.check_rubric(rubric)
    assert editor.generate(request(task, rubric.criteria[0])).state == "refused"


@pytest.mark.parametrize("options", [{"seed": "x"}, {"seed": True}, {"sed": 1}])
def test_a_wrong_option_is_named(options) -> None:
    with pytest.raises(BadInputError, match=next(iter(options))):
        connect(ModelSpec(model="offline/editor", options=options))


@pytest.mark.parametrize("name", ["offline/editr", "offline/editor@2"])
def test_an_unknown_offline_model_is_answered_with_the_known_ones(name: str) -> None:
    with pytest.raises(BadInputError, match="offline/editor, offline/reader, offline/planted"):
        connect(ModelSpec(model=name))


def bare_texts(editor, task: Task, samples: int = 20) -> list[str]:
    replies = [editor.respond(ResponseRequest(task=task, sample=sample)) for sample in range(1, samples + 1)]
    assert all(reply.text for reply in replies), replies
    return [reply.text for reply in replies]


def test_a_bare_task_gets_the_reference_in_as_many_variations_as_samples(editor, tasks) -> None:
    assert isinstance(editor, Responder)
    for task in tasks:
        texts = bare_texts(editor, task)
        assert texts == bare_texts(editor, task)
        assert len(set(texts)) == len(texts)
        assert bare_texts(connect(ModelSpec(model="offline/editor", options={"seed": 1})), task) != texts


def test_variations_of_a_bare_task_are_milder_than_probes_that_fail_and_still_vary(editor, reader, tasks) -> None:
    criterion = Criterion(id="content", label="Completeness", definition="Nothing of importance is missing.")

    def scores(texts: list[str], task: Task) -> list[int]:
        found = [reader.judge(JudgementRequest(task=task, criterion=criterion, response=t)).score for t in texts]
        assert None not in found
        return found

    for task in tasks:
        failing = [editor.generate(request(task, criterion, "-", sample)).text for sample in range(1, 11)]
        varied = scores(bare_texts(editor, task), task)
        assert sum(varied) / len(varied) > sum(scores(failing, task)) / 10 + 1
        assert len(set(varied)) > 1


def test_a_bare_task_without_a_reference_is_refused(editor) -> None:
    reply = editor.respond(ResponseRequest(task=Task(id="t", prompt="Write."), sample=1))
    assert (reply.state, reply.text) == ("refused", None)
    one_sentence = Task(id="t", prompt="Write.", reference="It rains.")
    assert len(bare_texts(editor, one_sentence, 30)) == 30


def test_probes_are_the_texts_that_they_were_before_bare_tasks_could_be_answered(editor, reply_task) -> None:
    # Offline models keep the version in their keys, so an answer that changed would contradict the ledger's.
    asked = [
        request(reply_task, Criterion(id="o", label=CRITERIA["order"][0], definition="Logical."), d, 3) for d in "+-"
    ]
    texts = [editor.generate(each).text for each in asked]
    assert content_hash(texts)[:16] == "9b89c27cb9ff3960"
