"""The tokens of protobuf's text format, with their positions. Reports nothing: the parser finds what is wrong.

The whole text is cut up at once, which takes time linear in its length whatever it holds: a token is never longer than
its line. Beyond the format it knows template placeholders (`${x}`, `$x`, `{{x}}`, `{% … %}`, `@x@`), none of which can
stand in a valid file outside quotes, and typographic quotes, so that the parser can name them.
"""

import bisect
import enum
import re

from naiad.config.problem import Position
from naiad.core.record import Record


class Kind(enum.Enum):
    """What a token is."""

    WORD = "word"
    """A name or a number, depending on the field."""
    STRING = "string"
    """With its quotes."""
    SYMBOL = "symbol"
    PLACEHOLDER = "placeholder"
    END = "end"


class Token(Record, frozen=True):
    """A piece of the text.

    Attributes:
        text: as written; "" at the end.
        start: offset of its first character.
        end: offset after its last character.
        line: 1-based.
        column: 1-based, in characters.
        indent: column of the first token on its line.
        closed: False for a string without its closing quote, and for typographic quotes.
    """

    kind: Kind
    text: str
    start: int
    end: int
    line: int
    column: int
    indent: int
    closed: bool

    @property
    def first_on_line(self) -> bool:
        """Whether nothing but space stands before it."""
        return self.column == self.indent

    def position(self) -> Position:
        """Its place and width."""
        return Position(self.line, self.column, max(1, len(self.text)))


TYPOGRAPHIC_QUOTES = "\u2018\u2019\u201a\u201c\u201d\u201e"

# `#` to the end of the line is a comment. Names may hold + and - here, as in the official tokenizer: `KIND-GPU` is one word.
_PATTERN = re.compile(
    r"""
      (?P<space>(?:\s|\#[^\n]*)+)
    | (?P<placeholder>\$\{[^}\n]{0,200}\} | \$\$?\w+ | \{\{[^{}\n]{0,200}\}\} | \{%[^\n]{0,200}?%\} | @\w{1,200}@)
    | (?P<string>"(?:[^"\\\n]|\\[^\n])*+" | '(?:[^'\\\n]|\\[^\n])*+')
    | (?P<open_string>["'](?:[^\\\n]|\\[^\n])*+\\?)
    | (?P<typographic>
          [\u201c-\u201e][^\u201c-\u201e"\n]*[\u201c-\u201e"]?
        | [\u2018-\u201a][^\u2018-\u201a'\n]*[\u2018-\u201a']?
      )
    | (?P<word>[^\W\d][\w+-]* | (?:[0-9+-]|\.[0-9])[\w.+-]*)
    | (?P<symbol>.)
    """,
    re.VERBOSE | re.DOTALL,
)

_NAME_ENDS = re.compile(r"[\s,;:\[\]{}<>#]")
"""Where a string that lost its closing quote most likely ends: names and file names hold none of these."""


_LONGEST_NAME = 1000


def tokenize(text: str) -> list[Token]:
    """Cut a text into tokens; the last one is END, just after the last token's line position."""
    tokens: list[Token] = []
    starts = line_starts(text)
    line = 0
    indent_line = -1
    indent = 1
    at = 0
    while at < len(text):
        match = _PATTERN.match(text, at)
        assert match is not None, "the pattern ends in `any character`"
        group = match.lastgroup
        end = match.end()
        if group == "space":
            at = end
            continue
        if group == "open_string":
            end = _end_of_open_string(text, at, end)
        while line + 1 < len(starts) and starts[line + 1] <= at:
            line += 1
        column = at - starts[line] + 1
        if line != indent_line:
            indent_line, indent = line, column
        tokens.append(
            Token(
                kind=_KINDS[group or "symbol"],
                text=text[at:end],
                start=at,
                end=end,
                line=line + 1,
                column=column,
                indent=indent,
                closed=group not in {"open_string", "typographic"},
            )
        )
        at = end
    last = len(starts)
    column = len(text) - starts[-1] + 1
    tokens.append(Token(Kind.END, "", len(text), len(text), last, column, column, closed=True))
    return tokens


_KINDS = {
    "placeholder": Kind.PLACEHOLDER,
    "string": Kind.STRING,
    "open_string": Kind.STRING,
    "typographic": Kind.STRING,
    "word": Kind.WORD,
    "symbol": Kind.SYMBOL,
}


def _end_of_open_string(text: str, start: int, end: int) -> int:
    """Where to go on after a string without closing quote: at its first separator, else at the end of the line."""
    if end - start > _LONGEST_NAME:
        return end  # reading the rest again and again would take time quadratic in its length
    separator = _NAME_ENDS.search(text, start + 1, end)
    return end if separator is None else separator.start()


def line_starts(text: str) -> list[int]:
    """The offset at which each line begins; lines end at a line feed, as in the official parser."""
    return [0, *(match.end() for match in re.finditer("\n", text))]


def position_at(starts: list[int], start: int, end: int) -> Position:
    """The place of a stretch of text that lies within one line."""
    line = bisect.bisect_right(starts, start)
    return Position(line, start - starts[line - 1] + 1, max(1, end - start))
