"""YAML text to plain values, refusing what YAML lets pass in silence, with the line of everything.

Here: the loader, its limits and the look-up of lines. Not here: what the keys mean (`loading.py`).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import Any

import yaml
from yaml.composer import ComposerError
from yaml.constructor import ConstructorError
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from yaml.reader import ReaderError

#: Rubrics nest five levels deep and hold some hundred values. The limits are counted with every alias written out, so
#: that a few lines of aliases to aliases can't fill the memory of whoever copies or hashes the values later.
MAX_DEPTH = 50
MAX_VALUES = 100_000
MAX_CHARACTERS = 10_000_000

_HINTS = {
    r"'\t'": "indent with spaces, not tabs",
    "mapping values are not allowed": "a text that holds ': ' needs quotes, or >- and a new line before it",
    "another document": "one file holds one document, so no further '---'",
    "tag:yaml.org,2002:merge": "merge keys (<<) are not supported, write the keys out",
}


class StrictYamlError(Exception):
    """Text that is not acceptable YAML: `line` and `column` (both from 1) where they are known."""

    def __init__(self, problem: str, line: int | None = None, column: int | None = None) -> None:
        super().__init__(problem)
        self.problem, self.line, self.column = problem, line, column


class YamlMapping(dict[str, Any]):
    """A mapping read from YAML that remembers the lines on which its content stands."""

    def __init__(self, values: dict[str, Any], root: MappingNode) -> None:
        super().__init__(values)
        self.root = root


def parse_yaml(text: str) -> object:
    """The value of a YAML text, a `YamlMapping` where that is a mapping.

    Raises StrictYamlError for text that is no YAML or more than one document, a key given twice, a key that is no plain
    value, a tag that would build an object, a value that does not fit its tag, a container that holds itself, half a
    surrogate pair, and for more than the limits above.
    """
    try:
        # Inside the try: the reader looks at the characters as soon as it is made.
        loader = _StrictLoader(text)
        root = loader.get_single_node()
        value = None if root is None else loader.construct_document(root)
    except ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise StrictYamlError(f"the character U+{error.character:04X} is not allowed", line) from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        problem = _with_hint(error.problem or error.context or "unreadable")
        raise StrictYamlError(problem, *((mark.line + 1, mark.column + 1) if mark else ())) from None
    return YamlMapping(value, root) if isinstance(value, dict) and isinstance(root, MappingNode) else value


def line_of(root: Node, place: Sequence[int | str]) -> int:
    """The line (from 1) of a place such as `("criteria", 2, "scale")`, or of what is nearest above it."""
    node, line = root, root.start_mark.line + 1
    for step in place:
        found = _child(node, step)
        if found is None:
            break
        marked, node = found
        line = marked.start_mark.line + 1
    return line


def _child(node: Node, step: int | str) -> tuple[Node, Node] | None:
    """The node whose line shows a step (a key, an item), and the node that the next step starts from."""
    if isinstance(node, MappingNode):
        return next(((key, value) for key, value in node.value if key.value == str(step)), None)
    if isinstance(node, SequenceNode) and isinstance(step, int) and step < len(node.value):
        return node.value[step], node.value[step]
    return None


def _with_hint(problem: str) -> str:
    hint = next((hint for part, hint in _HINTS.items() if part in problem), None)
    return f"{problem} ({hint})" if hint else problem


class _StrictLoader(yaml.SafeLoader):
    """SafeLoader with the refusals and limits of `parse_yaml`."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._depth = 0
        #: id of a finished node -> its height, and its values and characters with aliases written out.
        self._extents: dict[int, tuple[int, int, int]] = {}

    def compose_node(self, parent: Node | None, index: Any) -> Node | None:
        event = self.peek_event()  # type: ignore[no-untyped-call]
        is_alias = isinstance(event, yaml.AliasEvent)
        self._depth += 1
        if self._depth > MAX_DEPTH:
            # Before going down: the composer calls itself once per level.
            raise ComposerError(None, None, f"nested deeper than {MAX_DEPTH} levels", event.start_mark)
        node = super().compose_node(parent, index)
        self._depth -= 1
        if node is not None and not is_alias:
            self._extents[id(node)] = self._extent(node)
        elif is_alias and id(node) not in self._extents:
            raise ComposerError(
                None, None, f"the alias *{event.anchor} stands inside of what it names", event.start_mark
            )
        return node

    def _extent(self, node: Node) -> tuple[int, int, int]:
        if isinstance(node, ScalarNode):
            return 1, 1, len(node.value)
        extents = [self._extents[id(child)] for child in _children(node)]
        height = 1 + max((extent[0] for extent in extents), default=0)
        values = 1 + sum(extent[1] for extent in extents)
        characters = sum(extent[2] for extent in extents)
        for measure, limit, what in (
            (height, MAX_DEPTH, "levels deep"),
            (values, MAX_VALUES, "values"),
            (characters, MAX_CHARACTERS, "characters"),
        ):
            if measure > limit:
                raise ComposerError(None, None, f"more than {limit:,} {what}, aliases counted", node.start_mark)
        return height, values, characters

    def construct_object(self, node: Node, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep)
        except (ValueError, LookupError, AttributeError, ArithmeticError):
            # What PyYAML's constructors let out when a text does not fit its tag, as in `!!timestamp soon`.
            kind = node.tag.rpartition(":")[2]
            raise ConstructorError(None, None, f"{node.value!r:.60} is no {kind}", node.start_mark) from None

    def construct_scalar(self, node: ScalarNode | MappingNode) -> Any:
        value = super().construct_scalar(node)
        if value.isascii() or not any("\ud800" <= char <= "\udfff" for char in value):
            return value
        try:
            # JSON writes characters beyond U+FFFF as two escapes, and JSON is meant to be YAML.
            return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
        except UnicodeDecodeError:
            raise ConstructorError(None, None, "half a surrogate pair is not text", node.start_mark) from None

    def construct_mapping(self, node: MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[Hashable] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key_node, ScalarNode):
                raise ConstructorError(None, None, "a key must be a plain value", key_node.start_mark)
            if key in seen:
                raise ConstructorError(None, None, f"key {key!r:.60} given twice", key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep)


def _children(node: Node) -> Iterator[Node]:
    for item in node.value:
        yield from item if isinstance(node, MappingNode) else (item,)
