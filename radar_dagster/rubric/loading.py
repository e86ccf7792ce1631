"""Reading rubric files: YAML to `Rubric`, with errors that name the file, the line and the expectation.

Here: our own YAML format and the shipped benchmarks. Other tools' formats get an importer module each beside this one.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError
from yaml.nodes import MappingNode, Node, SequenceNode

from radar_dagster.errors import BadInputError
from radar_dagster.rubric.model import Rubric

MAX_BYTES = 20_000_000


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
    default_scale = document.pop("scale", None)
    if default_scale is not None:
        for criterion in document.get("criteria") or []:
            if isinstance(criterion, dict):
                criterion.setdefault("scale", default_scale)
    document.setdefault("name", _slug(path.stem))
    return validate_document(Rubric, document, path)


def load_yaml_mapping(path: Path) -> dict[str, Any]:
    """A YAML file whose top level is a mapping with no key given twice; anything else is a BadInputError."""
    text = _read_text(path)
    try:
        value = yaml.load(text, Loader=_StrictLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f":{mark.line + 1}:{mark.column + 1}" if mark else ""
        raise BadInputError(f"{path}{where}: not valid YAML: {error.problem or error.context}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise BadInputError(f"{path}: not valid YAML: {str(error).splitlines()[0]}") from None
    if not isinstance(value, dict):
        raise BadInputError(f"{path}: expected a mapping of keys to values at the top, found {_describe(value)}")
    return value


_Model = TypeVar("_Model", bound=BaseModel)


def validate_document(model: type[_Model], document: dict[str, Any], path: Path) -> _Model:
    """Validate a document read from `path`; every fault becomes one line `file:line: place: expectation`."""
    try:
        return model.model_validate(document)
    except ValidationError as error:
        faults = _leaves(error.errors(include_url=False))
        lines = _line_numbers(path, [fault["loc"] for fault in faults])
        messages = [
            f"{path}{f':{line}' if line else ''}: {_place(fault['loc'])}: {_expectation(fault)}"
            for fault, line in zip(faults, lines, strict=True)
        ]
        raise BadInputError("\n".join(messages)) from None


def _leaves(faults: Sequence[Any]) -> list[Any]:
    """Drop what only follows from a fault deeper down ("at least 2 criteria", because one of them is invalid)."""
    places = [fault["loc"] for fault in faults]
    return [f for f in faults if not any(p != f["loc"] and p[: len(f["loc"])] == f["loc"] for p in places)]


def _read_text(path: Path) -> str:
    try:
        if path.stat().st_size > MAX_BYTES:
            raise BadInputError(f"{path}: larger than {MAX_BYTES // 1_000_000} MB, which no rubric or configuration is")
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadInputError(f"{path}: not UTF-8 text (byte {error.start})") from None
    except OSError as error:
        raise BadInputError(f"{path}: cannot be read: {error.strerror}") from None


class _StrictLoader(yaml.SafeLoader):
    """SafeLoader that refuses a key given twice, where YAML silently keeps the last."""

    def construct_mapping(self, node: MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if isinstance(key, (list, dict)):
                raise yaml.constructor.ConstructorError(None, None, "a key must be a plain value", key_node.start_mark)
            if key in seen:
                raise yaml.constructor.ConstructorError(None, None, f"key {key!r} given twice", key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep)


def _line_numbers(path: Path, places: Sequence[tuple[int | str, ...]]) -> list[int | None]:
    root = yaml.compose(_read_text(path), Loader=yaml.SafeLoader)
    return [_line_of(root, place) for place in places]


def _line_of(node: Node | None, place: tuple[int | str, ...]) -> int | None:
    line = node.start_mark.line + 1 if node is not None else None
    for step in place:
        if isinstance(node, MappingNode):
            found = [(k, v) for k, v in node.value if k.value == str(step)]
            if not found:
                return line
            key, node = found[0]
            line = key.start_mark.line + 1
        elif isinstance(node, SequenceNode) and isinstance(step, int) and step < len(node.value):
            node = node.value[step]
            line = node.start_mark.line + 1
        else:
            return line
    return line


def _place(loc: tuple[int | str, ...]) -> str:
    """`('criteria', 2, 'scale', 'min')` as `criteria[3].scale.min`: people count from one."""
    out = ""
    for step in loc:
        out += f"[{step + 1}]" if isinstance(step, int) else f".{step}" if out else step
    return out or "document"


def _expectation(fault: Any) -> str:
    if fault["type"] == "extra_forbidden":
        return "unknown key"
    if fault["type"] == "missing":
        return "required, but missing"
    message = str(fault["msg"]).removeprefix("Value error, ")
    shown = fault["input"]
    return message if isinstance(shown, (dict, list, tuple)) or "but" in message else f"{message}, found {shown!r:.80}"


def _describe(value: object) -> str:
    return "nothing" if value is None else f"a {type(value).__name__}"


def _slug(stem: str) -> str:
    kept = "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "-" for c in stem.lower())
    return kept.strip("-._")[:64] or "rubric"
