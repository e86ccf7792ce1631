"""Escaped text acts in no medium: terminal, Markdown, CSV; what is harmless stays as it was."""

import csv
import io
import re
import unicodedata

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from rich.console import Console
from rich.text import Text

from radar_dagster.report.escape import csv_frame, csv_text, markdown, one_line, shorten, terminal, visible

HOSTILE = st.text(
    st.one_of(
        st.sampled_from("|`*_[]()<>#+-.!&;:@=~\"'\\/{}$%^\n\r\t \x1b\x00\u202e\u2028\u200b\ud800aZ1"),
        st.characters(),
    ),
    max_size=60,
)
ANYTHING = st.one_of(
    HOSTILE,
    st.sampled_from(
        [
            "<script>alert(1)</script>", "[x](javascript:alert(1))", "![x](http://e.example/a.png)", "| a |\n|---|",
            "http://e.example", "www.e.example", "me@e.example", "# head", "- item", "1. item", "    code", "```\ncode",
            "***", "===", "---", "> quote", "&lt;", "&#60;", "a  \nb", "\x1b[31mred\x1b[0m", "=cmd|' /C calc'!A0",
            "$x$",
        ]
    ),
)  # fmt: skip


@given(ANYTHING)
def test_visible_text_holds_no_character_that_acts_instead_of_showing(text: str) -> None:
    powers = [c for c in visible(text) if unicodedata.category(c) in {"Cc", "Cs", "Zl", "Zp", "Cf"}]
    assert set(powers) <= set("\n\t\u200c\u200d")


@given(st.text(st.characters(categories=["L", "N", "P", "S", "M"])))
def test_text_of_letters_marks_and_symbols_is_left_as_it_is(text: str) -> None:
    assert visible(text) == text


def test_an_emoji_made_of_joined_parts_stays_whole() -> None:
    family = "\U0001f469\u200d\U0001f467"
    assert visible(family) == family


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[2J", r"\x1b[2J"),
        ("a\u202eb", r"a\u202eb"),
        ("\ud83d", r"\ud83d"),
        ("\U000e0041", r"\U000e0041"),
        ("\u200bx", r"\u200bx"),
        ("a\r\nb", "a\nb"),
        ("a\rb", r"a\x0db"),
    ],
)
def test_each_invisible_character_shows_its_code(text: str, shown: str) -> None:
    assert visible(text) == shown


@given(ANYTHING)
def test_a_terminal_cell_is_one_line_that_rich_prints_without_any_escape_sequence(text: str) -> None:
    assert len(terminal(text).splitlines()) <= 1
    console = Console(file=io.StringIO(), force_terminal=True, color_system="truecolor", width=10_000)
    console.print(Text(terminal(text)))
    printed = console.file.getvalue()
    assert "\x1b" not in printed
    assert printed.encode("utf-8")


def test_a_terminal_paragraph_keeps_its_lines() -> None:
    assert terminal("a\nb\x07", multiline=True) == "a\nb\\x07"


def shown_as(text: str) -> str:
    """What a reader should see: one line, without the breaks in bare links, blanks as HTML shows them."""
    return re.sub(r"\s+", " ", one_line(text)).strip()


def read_inline(tokens: list) -> str:
    assert {token.type for token in tokens} <= {"text", "text_special"}
    return "".join(token.content for token in tokens).replace("\u2060", "")


@given(ANYTHING)
def test_markdown_shows_the_text_and_forms_nothing(text: str) -> None:
    tokens = MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(markdown(text))
    if not shown_as(text):
        assert tokens == []
        return
    assert [token.type for token in tokens] == ["paragraph_open", "inline", "paragraph_close"]
    assert re.sub(r"\s+", " ", read_inline(tokens[1].children)).strip() == shown_as(text)


@given(ANYTHING)
def test_markdown_stays_in_its_table_cell(text: str) -> None:
    table = f"| {markdown(text)} | next |\n|---|---|\n| {markdown(text)} | next |"
    tokens = MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(table)
    cells = [token for token in tokens if token.type == "inline"]
    assert len(cells) == 4
    assert cells[1].content == cells[3].content == "next"
    assert re.sub(r"\s+", " ", read_inline(cells[2].children)).strip() == shown_as(text)


# The patterns by which mdast-util-gfm-autolink-literal (as in React-Markdown, hence in Dagster's UI) makes links of
# text after escapes were resolved.
BARE_LINKS = re.compile(r"(?i)(https?://|www(?=\.))([-.\w]+)([^ \t\r\n]*)|([-.\w+]+)@([-\w]+(?:\.[-\w]+)+)")


@given(
    st.one_of(ANYTHING, st.from_regex(r"(https?://|www\.|HTTP://|a@)[a-z.]{1,8}\.[a-z]{2}(/[a-z]*)?", fullmatch=True))
)
def test_bare_addresses_make_no_link_in_markdown(text: str) -> None:
    tokens = MarkdownIt("commonmark").parse(markdown(text))
    content = "".join(child.content for token in tokens for child in token.children or [])
    assert BARE_LINKS.search(content) is None


@given(ANYTHING)
def test_no_csv_cell_starts_like_a_formula_and_a_csv_reader_gets_the_text_back(text: str) -> None:
    safe = csv_text(text)
    assert safe in ("+", "-") or safe[:1] not in set("=+-@\t\r\n＝＋－＠")
    buffer = io.StringIO()
    csv.writer(buffer).writerow([safe, "next"])
    assert next(csv.reader(io.StringIO(buffer.getvalue(), newline=""))) == [safe, "next"]
    assert safe.removeprefix("'") == visible(text).removeprefix("'")


def test_directions_stay_readable_and_negative_numbers_stay_numbers_in_csv() -> None:
    frame = pd.DataFrame(
        {
            "=name": ["=1+1", "@x", None, "plain"],
            "direction": ["+", "-", "+", "-"],
            "value": [-0.5, None, 2.0, -1.0],
            "flag": [True, False, True, False],
        }
    )
    written = csv_frame(frame).to_csv(index=False)
    assert written.splitlines() == [
        "'=name,direction,value,flag", "'=1+1,+,-0.5,True", "'@x,-,,False", ",+,2.0,True", "plain,-,-1.0,False",
    ]  # fmt: skip
    assert frame.columns[0] == "=name", "the caller's frame is not touched"


def test_a_frame_with_lone_surrogates_can_be_written_as_utf8() -> None:
    frame = pd.DataFrame({"text": pd.Series(["a\ud800"], dtype=object)})
    assert csv_frame(frame).to_csv(index=False).encode("utf-8") == b"text\na\\ud800\n"


@given(st.text(max_size=40), st.integers(1, 40))
def test_shortened_text_fits_and_says_that_it_was_cut(text: str, limit: int) -> None:
    short = shorten(text, limit)
    assert len(short) <= limit or short == text
    assert (short == text) == (len(text) <= limit) or short.endswith("…")
