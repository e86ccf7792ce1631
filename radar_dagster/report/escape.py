"""Making text that a model or a file wrote safe to show: in a terminal, in Markdown, in CSV, on a page.

Here: one escape per medium, each a function from text to text. Not here: storing (`models/replies.py`), and HTML's own
escaping, which Jinja does. What can't be shown is made visible, never dropped.
"""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # every message passes here; only a frame needs pandas
    import pandas as pd

#: Categories without a glyph of their own: controls, surrogates, line and paragraph separators, format characters.
_INVISIBLE = frozenset({"Cc", "Cs", "Zl", "Zp", "Cf"})
#: Format characters that scripts and emoji need; they join letters and move nothing.
_JOINERS = frozenset("\u200c\u200d")
_LINE_BREAK = re.compile(r"\r\n|[\n\r]")
_PUNCTUATION = re.compile(r"[!\"#$%'()*+,\-./:;=?@\[\\\]^_`{|}~]")
#: Where GFM makes links of bare text, even of escaped text: after a scheme, after `www`, and at an address's `@`.
_BARE_LINK = re.compile(r"(?i)(?<=http)(?=s?:)|(?<=www)(?=\.)|(?<=ftp)(?=:)|(?<=mailto)(?=:)|(?<=xmpp)(?=:)|(?<=@)")
_WORD_JOINER = "\u2060"
_FORMULA_START = frozenset("=+-@\t\r\n＝＋－＠")
_PLAIN_SIGNS = frozenset("+-")
_MARKDOWN_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}


def visible(text: str) -> str:
    r"""Make characters without a glyph visible, as `\x1b` or `\u202e`; line feeds and tabs stay.

    Terminal sequences, bidirectional overrides, zero-width marks and lone surrogates lose their power; the two joiners
    that emoji and some scripts are written with are kept.

    >>> visible("\x1b[31mred\u202e")
    '\\x1b[31mred\\u202e'
    """
    # Then no character is of a category that is not shown, which is much quicker than asking each for its own.
    if text.isprintable():
        return text
    return "".join(_shown(character) for character in text.replace("\r\n", "\n"))


def _shown(character: str) -> str:
    if character in "\n\t" or character in _JOINERS or unicodedata.category(character) not in _INVISIBLE:
        return character
    code = ord(character)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def one_line(text: str) -> str:
    """Text for one cell or one line: `visible`, with line breaks shown as `⏎` and tabs as spaces.

    >>> one_line("a\\nb")
    'a ⏎ b'
    """
    return visible(_LINE_BREAK.sub(" ⏎ ", text)).replace("\t", " ")


def terminal(text: str, *, multiline: bool = False) -> str:
    """Text for a terminal. It may still hold square brackets: give it to rich as `rich.text.Text`, not as markup."""
    return visible(text) if multiline else one_line(text)


def markdown(text: str) -> str:
    r"""Text for one line or table cell of Markdown (CommonMark and GitHub's): it shows as written and forms nothing.

    Every punctuation mark is escaped, so no table cell, link, image, code, emphasis, heading, list or HTML can form.
    Renderers that link bare addresses do so after they resolve escapes; an invisible word joiner (U+2060) breaks those.

    >>> markdown("[x](y) | <b>")
    '\\[x\\]\\(y\\) \\| &lt;b&gt;'
    """
    unlinked = _BARE_LINK.sub(_WORD_JOINER, one_line(text).strip())
    escaped = _PUNCTUATION.sub(lambda found: f"\\{found[0]}", unlinked)
    return re.sub("[&<>]", lambda found: _MARKDOWN_ENTITIES[found[0]], escaped)


def csv_text(text: str) -> str:
    """Text for a CSV cell: with an apostrophe before it where a spreadsheet would read a formula.

    That is text which starts with = + - @ (also full-width), a tab or a line break. A sign that stands alone is a
    direction, not a formula, and stays. Quoting is left to the CSV writer.

    >>> csv_text("=1+1"), csv_text("+")
    ("'=1+1", '+')
    """
    shown = visible(text)
    return f"'{shown}" if text[:1] in _FORMULA_START and text not in _PLAIN_SIGNS else shown


def csv_frame(frame: pd.DataFrame) -> pd.DataFrame:
    """A copy of `frame` whose text cells and column names passed `csv_text`; numbers, booleans and nulls stay."""
    import pandas as pd

    safe = frame.copy()
    for name in safe.columns:
        if not (pd.api.types.is_numeric_dtype(safe[name]) or pd.api.types.is_bool_dtype(safe[name])):
            safe[name] = [csv_text(value) if isinstance(value, str) else value for value in safe[name]]
    return safe.rename(columns=lambda name: csv_text(str(name)))


def shorten(text: str, limit: int) -> str:
    """Text cut to at most `limit` characters, ending in `…` when something was cut.

    >>> shorten("coherence", 5)
    'cohe…'
    """
    return text if len(text) <= limit else text[: limit - 1].rstrip() + "…"
