"""Reading rubric files: YAML to `Rubric`, with errors that name the file, the line and the expectation.

Here: our own YAML format and the shipped benchmarks. Not here: YAML itself (`strict_yaml.py`), what makes a rubric
valid (`model.py`), and other tools' formats, which get an importer module each beside this one.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterator, Sequence
from importlib import resources
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from radar_dagster.errors import BadInputError
from radar_dagster.rubric.model import Rubric, Scale
from radar_dagster.rubric.strict_yaml import StrictYamlError, YamlMapping, line_of, parse_yaml

#: PyYAML reads a fifth of a megabyte a second in the worst case.
MAX_BYTES = 5_000_000
_FAULTS_SHOWN = 20

#: A place in a document: keys and indices, from its root.
Location = tuple[int | str, ...]


def shipped_benchmarks() -> tuple[str, ...]:
    """Names of the benchmarks that come with the package, in alphabetical order."""
    folder = resources.files("radar_dagster.rubric") / "benchmarks"
    return tuple(sorted(f.name.removesuffix(".yaml") for f in folder.iterdir() if f.name.endswith(".yaml")))


def benchmark_path(name: str) -> Path:
    """Where a shipped benchmark's YAML lies; BadInputError with the known names when there is none."""
    if name not in shipped_benchmarks():
        raise BadInputError(f"{name!r} is neither a file nor a shipped benchmark ({', '.join(shipped_benchmarks())})")
    return Path(str(resources.files("radar_dagster.rubric") / "benchmarks" / f"{name}.yaml"))


def load_rubric(path: Path) -> Rubric:
    """Read a rubric file.

    Raises BadInputError naming file, line, place in the document and expectation; a `scale` at the top of the
    document is the default of every criterion that has none of its own.
    """
    document = load_yaml_mapping(path)
    if "scale" in document:
        _spread_scale(document, path)
    document.setdefault("name", _slug(path.stem))
    return validate_document(Rubric, document, path)


class _SharedScale(BaseModel):
    scale: Scale


def _spread_scale(document: YamlMapping, path: Path) -> None:
    """Give the document's `scale` to the criteria that have none, once it is known to be one."""
    shared = YamlMapping({"scale": document.pop("scale")}, document.root)
    validate_document(_SharedScale, shared, path)
    criteria = document.get("criteria")
    for criterion in criteria if isinstance(criteria, list) else ():
        if isinstance(criterion, dict):
            criterion.setdefault("scale", shared["scale"])


def load_yaml_mapping(path: Path) -> YamlMapping:
    """A YAML file whose top level is a mapping; all else, and whatever `parse_yaml` refuses, is a BadInputError."""
    text = _read_text(path)
    try:
        value = parse_yaml(text)
    except StrictYamlError as fault:
        where = "".join(f":{number}" for number in (fault.line, fault.column) if number)
        raise BadInputError(f"{path}{where}: not valid YAML: {fault.problem}") from None
    if not isinstance(value, YamlMapping):
        raise BadInputError(f"{path}: expected a mapping of keys to values at the top, found {_describe(value)}")
    return value


_Model = TypeVar("_Model", bound=BaseModel)


def validate_document(
    model: type[_Model], document: dict[str, Any], path: Path, written: Callable[[Location], Location] | None = None
) -> _Model:
    """Validate a document read from `path`; every fault becomes one line `file:line: place: expectation`.

    A document that is no `YamlMapping` has no lines, so its faults name the file and the place only. `written` tells
    where a place of the model stands in the document, for those that the model moves before it validates them.
    """
    try:
        return model.model_validate(document)
    except ValidationError as error:
        faults = _leaves(error.errors(include_url=False))
        messages = []
        for fault in faults[:_FAULTS_SHOWN]:
            told = {**fault, "loc": written(fault["loc"])} if written else fault
            messages.append(_message(path, document, told) + _known_keys(model, fault))
        if len(faults) > _FAULTS_SHOWN:
            messages.append(f"{path}: … and {len(faults) - _FAULTS_SHOWN:,} more")
        raise BadInputError("\n".join(messages)) from None


def _leaves(faults: Sequence[Any]) -> list[Any]:
    """Drop what only follows from a fault deeper down ("at least 2 criteria", because one of them is invalid)."""
    above = {fault["loc"][:depth] for fault in faults for depth in range(len(fault["loc"]))}
    return [fault for fault in faults if fault["loc"] not in above]


def _message(path: Path, document: dict[str, Any], fault: Any) -> str:
    line = f":{line_of(document.root, fault['loc'])}" if isinstance(document, YamlMapping) else ""
    return f"{path}{line}: {_place(fault, document)}: {_expectation(fault)}"


def _known_keys(model: type[BaseModel], fault: Any) -> str:
    """For an unknown key, those that its mapping may have, as far as they can be told from the model; else nothing."""
    if fault["type"] != "extra_forbidden":
        return ""
    place: Any = model
    for step in fault["loc"][:-1]:
        if not isinstance(step, int):
            place = _within(place, step)
    inner = _model_in(place)
    if inner is None:
        return ""
    # What is left out when a model is written is not the file's to set either.
    return f"; known are {', '.join(name for name, field in inner.model_fields.items() if not field.exclude)}"


def _within(annotation: Any, step: str) -> Any:
    """The annotation of what a mapping of this kind holds under a key; None where that can't be told."""
    values = [get_args(part)[1] for part in _alternatives(annotation) if get_origin(part) is dict]
    if values:
        return values[0]
    inner = _model_in(annotation)
    field = None if inner is None else inner.model_fields.get(step)
    return None if field is None else field.annotation


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """The one model that an annotation speaks of, in lists or not; None where there are several, or none."""
    models = {kind for kind in _inside(annotation) if _is_model(kind)}
    return models.pop() if len(models) == 1 else None


def _alternatives(annotation: Any) -> Iterator[Any]:
    """An annotation, and the parts of a union."""
    yield annotation
    if get_origin(annotation) in (Union, UnionType):
        yield from get_args(annotation)


def _inside(annotation: Any) -> Iterator[Any]:
    """An annotation and everything within its brackets."""
    yield annotation
    for part in get_args(annotation):
        yield from _inside(part)


def _is_model(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def _read_text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            # Not by the size that the file system tells: pipes and devices have none.
            data = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        raise BadInputError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if len(data) > MAX_BYTES:
        raise BadInputError(f"{path}: larger than {MAX_BYTES // 1_000_000} MB, which no rubric or configuration is")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise BadInputError(f"{path}:{line}: not UTF-8 text (byte {error.start}); save the file as UTF-8") from None


def _place(fault: Any, document: Any) -> str:
    """The place of a fault: `('criteria', 2, 'scale', 'min')` as `criteria[3].scale.min`: people count from one."""
    out, value = "", document
    for step in fault["loc"]:
        if isinstance(value, dict) and (step in value or fault["type"] == "missing"):
            # A key is anything that the file says, terminal escapes and line breaks included.
            key = str(step) if str(step).isprintable() else repr(step)
            out += f".{key:.60}" if out else f"{key:.60}"
            value = value.get(step)
        elif isinstance(value, list) and isinstance(step, int):
            out += f"[{step + 1}]"
            value = value[step] if step < len(value) else None
        # Any other step is pydantic's own, such as the branch of a union, and nothing that stands in the file.
    return out or "document"


#: Keys of configurations whose values no message repeats: a key or a password may stand there by mistake.
_MAY_BE_SECRET = frozenset({"api_key_env", "base_url", "ledger"})

#: pydantic speaks of Python's types; who writes YAML knows lists, mappings and text.
_WORDS = {
    "extra_forbidden": "unknown key",
    "missing": "required, but missing",
    "tuple_type": "expected a list",
    "list_type": "expected a list",
    "dict_type": "expected a mapping of keys to values",
    "model_type": "expected a mapping of keys to values",
    "string_type": "expected text (put it in quotes if YAML takes it for something else)",
    "string_too_short": "expected text, not nothing",
    "int_type": "expected a whole number",
    "int_parsing": "expected a whole number",
    "float_type": "expected a number",
    "invalid_key": "expected a key of text",
}


def _expectation(fault: Any) -> str:
    kind, shown = fault["type"], fault["input"]
    if kind == "too_short":
        return f"expected at least {fault['ctx']['min_length']}, found {fault['ctx']['actual_length']}"
    if kind == "string_type" and shown is None:
        return "expected text, found nothing"
    message = _WORDS.get(kind) or str(fault["msg"]).removeprefix("Value error, ")
    if kind in {"missing", "extra_forbidden"} or isinstance(shown, (dict, list, tuple)):
        return message
    if _MAY_BE_SECRET.intersection(fault["loc"]):
        return message
    if ", but " in message or (isinstance(shown, str) and repr(shown) in message):  # says already what was found
        return message
    return f"{message}, found {_describe(None) if shown is None else f'{shown!r:.80}'}"


def _describe(value: object) -> str:
    return "nothing" if value is None else f"a {type(value).__name__}"


def _slug(stem: str) -> str:
    base = "".join(c for c in unicodedata.normalize("NFKD", stem.lower()) if not unicodedata.combining(c))
    kept = "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "-" for c in base)
    return kept.strip("-._")[:64] or "rubric"
