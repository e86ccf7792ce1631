"""Cut a text into sentences, verse lines and code blocks, and into words and figures, without losing a character.

Here: the splitting that the editor and the reader share. Every pattern runs in linear time, because the texts that the
reader gets are hostile input. Not here: what the pieces mean.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple


class Segment(NamedTuple):
    """A sentence, verse line, list item or fenced code block, and the white space that follows it."""

    text: str
    gap: str
    is_code: bool = False


def vocabulary(listed: str) -> frozenset[str]:
    """The words of a list that is written as one string."""
    return frozenset(listed.split())


# The lookbehinds make a run of marks match once, at its start; without them "!!!!…" would cost quadratic time.
_SENTENCE_END = re.compile(r"""(?<![.!?…])[.!?…]+["'”’»)\]*_]*(?=\s)|(?<![。！？])[。！？]+[」』”）]*""")
_FENCE = re.compile(r"^[ \t]*```", re.MULTILINE)
_PARAGRAPH_GAP = re.compile(r"\n(?:[ \t]*\n)+")
_ABBREVIATIONS = vocabulary(
    "mr mrs ms dr prof st vs etc e.g i.e cf fig figs no nos vol approx ca al jr sr inc ltd dept est a.m p.m u.s"
)
#: Lines at least this long, all but the last of a paragraph, are prose that an editor wrapped; shorter ones are verse.
_WRAPPED_LINE = 68

_WORD = re.compile(
    "[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]"  # one sign of a script that writes no spaces
    "|[^\\W\\d_\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]+(?:['’-][^\\W\\d_\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]+)*"
)
_FIGURE = re.compile(r"\d+(?:[.,:]\d+)*")
_NUMBER_WORDS = {
    "two": "2", "three": "3", "four": "4", "five": "5", "six": "6", "seven": "7", "eight": "8", "nine": "9",
    "ten": "10", "eleven": "11", "twelve": "12", "thirteen": "13", "fourteen": "14", "fifteen": "15", "sixteen": "16",
    "seventeen": "17", "eighteen": "18", "nineteen": "19", "twenty": "20",
}  # fmt: skip
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")


def split(text: str) -> list[Segment]:
    """Cut `text` into segments; `join` gives back `text` without white space around it.

    >>> [segment.text for segment in split("Dr. Lee paid £3.50. Then she left!")]
    ['Dr. Lee paid £3.50.', 'Then she left!']
    """
    return list(_split(text.strip()))


def join(segments: Iterable[Segment]) -> str:
    """Undo `split`."""
    return "".join(segment.text + segment.gap for segment in segments).strip()


def words(text: str) -> list[str]:
    """The words of `text` in order, as written; figures are not words."""
    return _WORD.findall(text)


def figures(text: str) -> list[str]:
    """The figures of `text` in order, in one notation: `18,000` is `18000`, `two` is `2`, `4.50` is `4.5`.

    >>> figures("Two of 2,340 loans cost £4.50.")
    ['2', '2340', '4.5']
    """
    found = [(m.start(), _plain(m[0])) for m in _FIGURE.finditer(text)]
    found += [(m.start(), _NUMBER_WORDS[m[0].lower()]) for m in _WORD.finditer(text) if m[0].lower() in _NUMBER_WORDS]
    return [figure for _, figure in sorted(found)]


def _plain(figure: str) -> str:
    figure = _THOUSANDS.sub("", figure)
    whole, point, fraction = figure.partition(".")
    fraction = fraction.rstrip("0") if fraction.isdigit() else fraction
    return whole + point + fraction if fraction else whole


def _split(text: str) -> Iterator[Segment]:
    position = 0
    fences = [m.start() for m in _FENCE.finditer(text)]
    for opening, closing in zip(fences[::2], fences[1::2], strict=False):
        end = text.find("\n", closing)
        end = len(text) if end < 0 else end
        yield from _split_prose(text[position:opening])
        position = end + _space_length(text, end)
        yield Segment(text[opening:end], text[end:position], is_code=True)
    yield from _split_prose(text[position:])


def _split_prose(text: str) -> Iterator[Segment]:
    position = 0
    for gap in _PARAGRAPH_GAP.finditer(text):
        yield from _split_paragraph(text[position : gap.start()], gap[0])
        position = gap.end()
    if position < len(text):
        yield from _split_paragraph(text[position:], "")


def _split_paragraph(paragraph: str, gap: str) -> Iterator[Segment]:
    lines = paragraph.split("\n")
    if len(lines) == 1 or all(len(line) >= _WRAPPED_LINE for line in lines[:-1]):
        yield from _split_line(paragraph, gap)
        return
    for line in lines[:-1]:
        yield from _split_line(line, "\n")
    yield from _split_line(lines[-1], gap)


def _split_line(line: str, last_gap: str) -> Iterator[Segment]:
    start = 0
    for found in _SENTENCE_END.finditer(line):
        end = found.end()
        gap = _space_length(line, end)
        if end + gap < len(line) and _ends_sentence(line, found, end + gap):
            yield Segment(line[start:end], line[end : end + gap])
            start = end + gap
    rest = line[start:].rstrip()
    yield Segment(rest, line[start + len(rest) :] + last_gap)


def _ends_sentence(line: str, found: re.Match[str], following: int) -> bool:
    if found[0] != ".":
        return not (found[0][0] in ".…" and line[following].islower())
    before = line[max(0, found.start() - 12) : found.start()].split()
    last = before[-1].lstrip("(\"'“").lower() if before else ""
    return not (line[following].islower() or last in _ABBREVIATIONS or (len(last) == 1 and last.isalpha()))


def _space_length(text: str, start: int) -> int:
    end = start
    while end < len(text) and text[end].isspace():
        end += 1
    return end - start
