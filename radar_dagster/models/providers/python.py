"""`python/package.module:object`: any function, class or object of the user's own as a generator or verifier.

Here: finding the object and turning what it returns or raises into replies. Not here: putting the workspace on
`sys.path` (whoever starts the process does that), and any model of ours.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
import re
import sys
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from radar_dagster.errors import BadInputError
from radar_dagster.models.naming import ModelSpec
from radar_dagster.models.providers import Model
from radar_dagster.models.replies import Generation, Judgement, State, generation, judgement
from radar_dagster.models.requests import GenerationRequest, JudgementRequest, ResponseRequest
from radar_dagster.rubric.model import Rubric

_TARGET = re.compile(r"(?P<module>[^\W\d]\w*(?:\.[^\W\d]\w*)*):(?P<object>[^\W\d]\w*(?:\.[^\W\d]\w*)*)")
_FORM = "expected python/package.module:object, for example python/judges:rouge_l"


class PythonModel:
    """Checks rubrics if the user's object does; the roles are added by the subclasses."""

    def __init__(self, name: str, target: Any, options: Mapping[str, Any], version: str = "") -> None:
        self._name = name
        self._target = target
        self._options = options
        #: Changes with the object's file: an answer of the code as it was before is no answer of this one.
        self.version = version

    def check_rubric(self, rubric: Rubric) -> None:
        """Ask the object's own `check_rubric`, if it has one; what it raises becomes a BadInputError."""
        check = getattr(self._target, "check_rubric", None)
        if check is None:
            return
        try:
            check(rubric)
        except BadInputError:
            raise
        except (Exception, SystemExit) as error:
            raise BadInputError(f"{self._name}: rubric {rubric.name}: {_told(error)}") from error

    def _method(self, name: str) -> Callable[..., Any]:
        method: Callable[..., Any] = getattr(self._target, name, self._target)
        return method


class PythonGenerator(PythonModel):
    """Calls the object with a `GenerationRequest`; it returns a text or a `Generation`."""

    def generate(self, request: GenerationRequest) -> Generation:
        """A text is cleaned like any model's; an exception is a `transport_error` that names it."""
        return self._written("generate", request)

    def _written(self, method: str, request: GenerationRequest | ResponseRequest) -> Generation:
        try:
            returned = self._method(method)(request, **self._options)
        except (Exception, SystemExit) as error:
            return Generation.failed(State.TRANSPORT_ERROR, _told(error))
        if isinstance(returned, Generation):
            return _recleaned(returned)
        if isinstance(returned, str):
            return generation(returned)
        expected = "expected a str or a Generation"
        return Generation.failed(State.PARSE_ERROR, f"{expected}, the generator returned {_shown(returned)}")


class PythonResponder(PythonGenerator):
    """A generator whose object has `respond`: it also answers a `ResponseRequest`, a task without a criterion."""

    def respond(self, request: ResponseRequest) -> Generation:
        """As `generate`."""
        return self._written("respond", request)


class PythonVerifier(PythonModel):
    """Calls the object with a `JudgementRequest`; it returns a score, a mapping with one, or a `Judgement`."""

    def judge(self, request: JudgementRequest) -> Judgement:
        """A score that is no level of the scale is a `parse_error`; an exception is a `transport_error`."""
        try:
            returned = self._method("judge")(request, **self._options)
        except (Exception, SystemExit) as error:
            return Judgement.failed(State.TRANSPORT_ERROR, _told(error))
        scale = request.criterion.scale
        if isinstance(returned, Judgement):
            return returned if returned.state is not State.OK else _rejudged(returned, request)
        if not isinstance(returned, Mapping):
            return judgement(returned, scale)
        unknown = [key for key in returned if key not in {"score", "reasoning", "rationale"}]
        if unknown or "score" not in returned:
            expected = "expected the keys score and, if wanted, reasoning and rationale"
            return Judgement.failed(State.PARSE_ERROR, f"{expected}, found {_shown(list(returned))}")
        texts = {key: returned.get(key) for key in ("reasoning", "rationale")}
        wrong = [key for key, value in texts.items() if value is not None and not isinstance(value, str)]
        if wrong:
            return Judgement.failed(State.PARSE_ERROR, f"{wrong[0]} must be a str, found {_shown(texts[wrong[0]])}")
        return judgement(returned["score"], scale, **texts)


class PythonGeneratorAndVerifier(PythonGenerator, PythonVerifier):
    """Plays both roles."""


class PythonResponderAndVerifier(PythonResponder, PythonVerifier):
    """Plays both roles and answers bare tasks."""


def connect(spec: ModelSpec) -> Model:
    """The model behind `python/module:object`; BadInputError names what is missing or does not fit.

    A class is instantiated with the options as keyword arguments; a function gets them with every call. An object with
    `generate` or `judge` plays that role, any other callable plays whichever role it is asked to. Bare tasks go to
    `respond` alone, since what was written for requests with a criterion would look for one.
    """
    found = _TARGET.fullmatch(spec.name.model)
    if found is None:
        raise BadInputError(f"{spec.model}: {_FORM}")
    target = _lookup(spec, found["module"], found["object"])
    options: Mapping[str, Any] = spec.options
    if inspect.isclass(target):
        target, options = _instance(spec, target), {}
    roles = {role for role in ("generate", "judge") if callable(getattr(target, role, None))}
    if not roles:
        _check_callable(spec, target, options)
    elif options:
        raise BadInputError(f"{spec.model}: options need a class or a function, but this is an object already made")
    responds = callable(getattr(target, "respond", None))
    called = [getattr(target, name) for name in (*sorted(roles), *(["respond"] if responds else []))]
    if any(inspect.iscoroutinefunction(each) for each in (*called, target)):
        raise BadInputError(f"{spec.model}: is asynchronous; give a function without `async`")
    version = _version(found["module"], target)
    if roles == {"judge"}:
        return PythonVerifier(spec.model, target, options, version)
    if roles == {"generate"}:
        return (PythonResponder if responds else PythonGenerator)(spec.model, target, options, version)
    both = PythonResponderAndVerifier if responds else PythonGeneratorAndVerifier
    return both(spec.model, target, options, version)


#: Module -> hash of its file when it was first asked for: what runs is what was imported, whatever the file says now.
_IMPORTED: weakref.WeakKeyDictionary[ModuleType, str] = weakref.WeakKeyDictionary()


def _version(module_name: str, target: Any) -> str:
    """The object's own `version` if it has one, else a hash of the file of its module (not of what that imports)."""
    told = getattr(target, "version", None)
    if isinstance(told, (str, int, float)) and not isinstance(told, bool):
        return str(told)
    module = sys.modules[module_name]
    if module not in _IMPORTED:
        _IMPORTED[module] = _hash_of(module)
    return _IMPORTED[module]


def _hash_of(module: ModuleType) -> str:
    source = inspect.getsourcefile(module) if hasattr(module, "__file__") else None
    if source is None or not Path(source).is_file():
        return ""
    return hashlib.sha256(Path(source).read_bytes()).hexdigest()[:16]


def _lookup(spec: ModelSpec, module_name: str, path: str) -> Any:
    try:
        target: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not (module_name == error.name or module_name.startswith(f"{error.name}.")):
            raise BadInputError(
                f"{spec.model}: {module_name} needs the module {error.name}, which is missing"
            ) from error
        file = module_name.partition(".")[0]
        raise BadInputError(
            f"{spec.model}: no module {error.name!r}; put {file}.py beside radar.yaml, or install the package"
        ) from None
    except (Exception, SystemExit) as error:
        raise BadInputError(f"{spec.model}: importing {module_name} failed: {_told(error)}") from error
    for step in path.split("."):
        if not hasattr(target, step):
            raise BadInputError(f"{spec.model}: module {module_name} has no {path!r}{_suggestion(target)}")
        target = getattr(target, step)
    return target


def _suggestion(holder: Any) -> str:
    """The public functions and classes that a module defines itself."""
    here = getattr(holder, "__name__", None)
    members = getattr(holder, "__dict__", {}).items()
    own = sorted(n for n, v in members if callable(v) and n[0] != "_" and getattr(v, "__module__", None) == here)
    return f"; it defines {', '.join(own[:8])}" if own else ""


def _instance(spec: ModelSpec, target: type) -> Any:
    try:
        return target(**spec.options)
    except BadInputError:
        raise
    except (Exception, SystemExit) as error:
        raise BadInputError(
            f"{spec.model}: could not be made with options {dict(spec.options)!r:.200}: {_told(error)}"
        ) from error


def _check_callable(spec: ModelSpec, target: Any, options: Mapping[str, Any]) -> None:
    """Refuse what can't be called with a request and the options, before anything is spent."""
    if not callable(target):
        raise BadInputError(
            f"{spec.model}: {type(target).__name__} objects can't be called and have neither generate nor judge"
        )
    try:
        inspect.signature(target).bind(object(), **options)
    except TypeError as error:
        raise BadInputError(f"{spec.model}: can't be called with a request and the options: {error}") from None
    except ValueError:
        return  # builtins without a signature: the first call tells


def _recleaned(returned: Generation) -> Generation:
    """Pass the text of a ready-made `ok` generation through the same hygiene as any other text."""
    if returned.state is not State.OK:
        return returned
    cleaned = generation(returned.text or "", returned.detail)
    return returned.model_copy(update={"state": cleaned.state, "text": cleaned.text, "detail": cleaned.detail})


def _rejudged(returned: Judgement, request: JudgementRequest) -> Judgement:
    """Check the score of a ready-made `ok` judgement against the scale."""
    checked = judgement(returned.score, request.criterion.scale, returned.reasoning, returned.rationale)
    kept = {name: getattr(returned, name) for name in ("parameters", "input_tokens", "output_tokens", "usd")}
    return checked.model_copy(update=kept)


def _told(error: BaseException) -> str:
    """An exception in words. It may hold what no table should: an address with a key, headers."""
    from radar_dagster.models.providers.http import redacted

    return redacted(f"{type(error).__name__}: {error}", (), longest=500)


def _shown(value: Any) -> str:
    try:
        return f"{type(value).__name__} {value!r:.80}"
    except Exception:  # the user's own __repr__ may fail
        return type(value).__name__
