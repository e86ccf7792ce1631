"""The plugin: any function, class or object plays; whatever it returns or raises becomes a reply."""

import sys
import textwrap
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from radar_dagster.errors import BadInputError
from radar_dagster.models.door import Door
from radar_dagster.models.naming import ModelSpec
from radar_dagster.models.providers import Generator, Model, Responder, Verifier, connect
from radar_dagster.models.replies import State
from radar_dagster.models.requests import GenerationRequest, JudgementRequest, ResponseRequest
from radar_dagster.models.settings import DoorSettings
from radar_dagster.rubric.model import Criterion, Rubric, Task

TASK = Task(id="t", prompt="Say something.", reference="Something.")
CRITERION = Criterion(id="c", label="C", definition="Good.")
ASK = GenerationRequest(task=TASK, criterion=CRITERION, direction="+", sample=1)
BARE = ResponseRequest(task=TASK, sample=2)
SCORE = JudgementRequest(task=TASK, criterion=CRITERION, response="A good answer.")

PLUGIN = """
from radar_dagster.models.replies import Generation, Judgement, State

returned = None

def answer(request):
    if isinstance(returned, BaseException):
        raise returned
    return returned

def by_length(request, limit=10):
    return 4 if len(request.response) > limit else 0

def echo(request):
    return f"{request.direction}{request.sample} {request.task.prompt}"

async def later(request):
    return 3

class Judge:
    def __init__(self, level=2, **more):
        if more:
            raise ValueError(f"no such thing as {sorted(more)}")
        self.level = level

    def judge(self, request):
        return {"score": self.level, "reasoning": "r", "rationale": "w"}

class Both:
    class Inner:
        def generate(self, request):
            return "inner"
        def judge(self, request):
            return "1"

class Picky(Judge):
    def check_rubric(self, rubric):
        raise KeyError("no sources")

class Callable:
    def __call__(self, request):
        return 3

class LeavesWhenMade:
    def __init__(self):
        raise SystemExit(0)

class LeavesWhenAsked(Judge):
    def check_rubric(self, rubric):
        raise SystemExit(0)

class Writer:
    def __init__(self, sign="W"):
        self.sign = sign
    def generate(self, request):
        return f"{self.sign} for {request.criterion.id}"
    def respond(self, request):
        return f"{self.sign} {request.sample}: {request.task.prompt}"

class WriterAndJudge(Writer, Judge):
    def __init__(self):
        Writer.__init__(self)
        Judge.__init__(self)
    def respond(self, request):
        return answer(request)

class LaterWriter(Writer):
    async def respond(self, request):
        return "later"

def shout(request, end="!"):
    return request.criterion.id + end

def shout_bare(request, end="!"):
    return request.task.prompt + end

shout.respond = shout_bare

made = Judge(level=1)
number = 7
"""


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The module above, importable as `house_judges` as if it lay beside radar.yaml."""
    (tmp_path / "house_judges.py").write_text(PLUGIN)
    (tmp_path / "house_package").mkdir()
    (tmp_path / "house_package" / "__init__.py").write_text("")
    (tmp_path / "house_package" / "deep.py").write_text("def judge(request):\n    return 0\n")
    (tmp_path / "house_broken.py").write_text("import nowhere_to_be_found\n")
    (tmp_path / "house_raising.py").write_text("raise RuntimeError('boom')\n")
    (tmp_path / "house_leaving.py").write_text("raise SystemExit(3)\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)
    import house_judges

    yield house_judges
    for name in set(sys.modules) - before:
        if name.startswith("house_"):
            del sys.modules[name]


def model(path: str, **options: object) -> Model:
    return connect(ModelSpec(model=f"python/{path}", options=options))


def judge(path: str, **options: object):
    found = model(path, **options)
    assert isinstance(found, Verifier)
    return found.judge(SCORE)


def generate(path: str, **options: object):
    found = model(path, **options)
    assert isinstance(found, Generator)
    return found.generate(ASK)


def test_a_function_plays_whichever_role_it_is_asked_to(plugin) -> None:
    assert generate("house_judges:echo").text == "+1 Say something."
    assert judge("house_judges:by_length").score == 4
    assert isinstance(model("house_judges:echo"), Verifier)


def test_options_are_keyword_arguments_of_a_function_or_a_class(plugin) -> None:
    assert judge("house_judges:by_length", limit=1000).score == 0
    assert judge("house_judges:Judge", level=3).score == 3
    assert judge("house_judges:Judge").score == 2


def test_modules_in_packages_nested_objects_and_variants_are_found(plugin) -> None:
    assert judge("house_package.deep:judge").score == 0
    assert generate("house_judges:Both.Inner").text == "inner"
    assert judge("house_judges:Both.Inner@second-version").score == 1
    assert judge("house_judges:Callable").score == 3
    assert judge("house_judges:made").score == 1


def test_an_object_plays_only_the_roles_it_has(plugin) -> None:
    assert isinstance(model("house_judges:Judge"), Verifier)
    assert not isinstance(model("house_judges:Judge"), Generator)
    with pytest.raises(BadInputError, match=r"mine \(python/house_judges:Judge\) is no generator"):
        Door(DoorSettings(models={"mine": ModelSpec(model="python/house_judges:Judge")})).generate("mine", [ASK])


def respond(path: str, **options: object):
    found = model(path, **options)
    assert isinstance(found, Responder)
    return found.respond(BARE)


def test_an_object_with_respond_answers_bare_tasks_besides_its_roles(plugin) -> None:
    assert respond("house_judges:Writer", sign="X").text == "X 2: Say something."
    assert generate("house_judges:Writer").text == "W for c"
    assert not isinstance(model("house_judges:Writer"), Verifier)
    assert judge("house_judges:WriterAndJudge").score == 2
    assert respond("house_judges:shout", end="?").text == "Say something.?"
    assert generate("house_judges:shout").text == "c!"


def test_what_a_bare_task_comes_back_with_is_read_like_any_other_text(plugin) -> None:
    plugin.returned = 7
    assert respond("house_judges:WriterAndJudge").state is State.PARSE_ERROR
    plugin.returned = KeyError("prompt")
    assert respond("house_judges:WriterAndJudge").state is State.TRANSPORT_ERROR


@pytest.mark.parametrize("path", ["echo", "Both.Inner", "Judge"])
def test_what_was_written_for_criteria_is_not_asked_without_one(plugin, path: str) -> None:
    assert not isinstance(model(f"house_judges:{path}"), Responder)
    door = Door(DoorSettings(models={"mine": ModelSpec(model=f"python/house_judges:{path}")}))
    with pytest.raises(BadInputError, match=r"mine \(python/house_judges:.*\) can't answer a task without a criterion"):
        door.respond("mine", [BARE])


@pytest.mark.parametrize(
    ("returned", "score"),
    [
        (0, 0),
        (4, 4),
        ("3", 3),
        (2.0, 2),
        ({"score": 1}, 1),
        ({"score": "2", "rationale": "because", "reasoning": None}, 2),
    ],
)
def test_scores_in_every_accepted_form(plugin, returned, score) -> None:
    plugin.returned = returned
    assert judge("house_judges:answer").score == score


@pytest.mark.parametrize(
    "returned",
    [
        None,
        True,
        5,
        -1,
        2.5,
        "4/5",
        "",
        [3],
        {},
        {"rationale": "x"},
        {"score": 3, "mark": 1},
        {"score": 3, "rationale": 7},
    ],
)
def test_everything_else_is_a_parse_error(plugin, returned) -> None:
    plugin.returned = returned
    reply = judge("house_judges:answer")
    assert (reply.state, reply.score) == (State.PARSE_ERROR, None)
    assert reply.detail


@pytest.mark.parametrize("error", [ValueError("bad \x1b[31m luck"), SystemExit(2), KeyError("x"), RecursionError()])
def test_an_exception_is_a_failed_call_that_names_it(plugin, error: BaseException) -> None:
    plugin.returned = error
    for reply in (judge("house_judges:answer"), generate("house_judges:answer")):
        assert reply.state is State.TRANSPORT_ERROR
        assert (reply.detail or "").startswith(type(error).__name__)
        assert "\x1b" not in (reply.detail or "")


def test_an_interrupt_is_not_swallowed(plugin) -> None:
    plugin.returned = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        judge("house_judges:answer")


def test_ready_made_replies_are_checked_like_any_others(plugin) -> None:
    from radar_dagster.models.replies import Generation, Judgement

    plugin.returned = Judgement(state=State.OK, score=9, input_tokens=12)
    assert judge("house_judges:answer").state is State.PARSE_ERROR
    plugin.returned = Judgement(state=State.OK, score=3, rationale="a\x00b", input_tokens=12)
    kept = judge("house_judges:answer")
    assert (kept.score, kept.rationale, kept.input_tokens) == (3, "a\\x00b", 12)
    plugin.returned = Judgement.failed(State.REFUSED, "no")
    assert judge("house_judges:answer").state is State.REFUSED
    plugin.returned = Generation(state=State.OK, text="<think>hm</think>Yes\x07", detail="edited", output_tokens=4)
    made = generate("house_judges:answer")
    assert (made.text, made.detail, made.output_tokens) == ("Yes\\x07", "edited", 4)
    plugin.returned = Generation(state=State.OK, text="<think>never closed")
    assert generate("house_judges:answer").state is State.TRUNCATED


def test_generators_return_text(plugin) -> None:
    plugin.returned = b"bytes"
    assert generate("house_judges:answer").state is State.PARSE_ERROR
    plugin.returned = " \n"
    assert generate("house_judges:answer").state is State.PARSE_ERROR


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text() | st.integers(),
        lambda x: st.lists(x) | st.dictionaries(st.text(), x),
    )
)
def test_whatever_comes_back_is_a_reply(plugin, returned) -> None:
    plugin.returned = returned
    for reply in (judge("house_judges:answer"), generate("house_judges:answer")):
        assert reply.state in {State.OK, State.PARSE_ERROR, State.TRUNCATED}


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("house_judges", "expected python/package.module:object"),
        ("house_judges:", "expected python/package.module:object"),
        ("house judges:x", "is not a model"),
        ("house_nothing:f", r"no module 'house_nothing'; put house_nothing.py beside radar.yaml"),
        ("house_package.shallow:f", "no module 'house_package.shallow'"),
        ("house_judges:juge", "has no 'juge'; it defines .*Judge"),
        ("house_judges:Both.Outer", "has no 'Both.Outer'"),
        ("house_broken:f", "house_broken needs the module nowhere_to_be_found"),
        ("house_raising:f", "importing house_raising failed: RuntimeError: boom"),
        ("house_leaving:f", "importing house_leaving failed: SystemExit"),
        ("house_judges:number", "int objects can't be called"),
        ("house_judges:later", "is asynchronous"),
        ("house_judges:LaterWriter", "is asynchronous"),
    ],
)
def test_what_can_not_be_used_is_named_at_connection(plugin, path: str, message: str) -> None:
    with pytest.raises((BadInputError, ValueError), match=message):
        model(path)


@pytest.mark.parametrize(
    ("path", "options", "message"),
    [
        ("house_judges:by_length", {"limt": 3}, "limt"),
        ("house_judges:Judge", {"colour": 1}, r"could not be made .*no such thing as \['colour'\]"),
        ("house_judges:made", {"level": 3}, "options need a class or a function"),
    ],
)
def test_options_that_do_not_fit_are_named_at_connection(plugin, path: str, options: dict, message: str) -> None:
    with pytest.raises(BadInputError, match=message):
        model(path, **options)


def test_a_rubric_check_of_the_object_is_asked(plugin) -> None:
    rubric = Rubric(name="r", criteria=(CRITERION, CRITERION.model_copy(update={"id": "d"})), tasks=(TASK,))
    door = Door(
        DoorSettings(
            models={alias: ModelSpec(model=f"python/house_judges:{alias}") for alias in ("Picky", "Judge", "by_length")}
        )
    )
    with pytest.raises(BadInputError, match="rubric r: KeyError: 'no sources'"):
        door.check("Picky", Verifier, rubric)
    door.check("Judge", Verifier, rubric)
    door.check("by_length", Verifier, rubric)


def test_the_example_of_the_documentation_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import re

    page = (Path(__file__).parents[4] / "docs" / "offline-models.md").read_text(encoding="utf-8")
    found = re.search(r"```python\n# judges\.py\n(.*?)```", page, re.DOTALL)
    assert found is not None
    (tmp_path / "house_documented.py").write_text(textwrap.dedent(found[1]))
    monkeypatch.syspath_prepend(str(tmp_path))
    assert judge("house_documented:mentions", words=["good"]).score == 4
    assert judge("house_documented:mentions", words=["bad"]).score == 0
    assert judge("house_documented:Overlap").state is State.OK
    del sys.modules["house_documented"]


def test_a_module_that_exits_is_bad_input_and_never_the_end_of_the_audit(plugin) -> None:
    with pytest.raises(BadInputError, match="SystemExit"):
        connect(ModelSpec(model="python/house_judges:LeavesWhenMade"))
    leaves = connect(ModelSpec(model="python/house_judges:LeavesWhenAsked"))
    rubric = Rubric(name="r", criteria=(CRITERION, CRITERION.model_copy(update={"id": "d"})), tasks=(TASK,))
    with pytest.raises(BadInputError, match="SystemExit"):
        leaves.check_rubric(rubric)
