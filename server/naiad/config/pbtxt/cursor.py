"""The parser's position in a config file: the tokens left, the brackets that are open, the problems found so far.

It knows how text is skipped, where a block or list ends and which bracket is missing, and nothing of fields. A problem with a bracket is
reported once, at the bracket to fix: the opening one when the closing one is missing. Skipping counts
brackets instead of descending, so that a file of 300,000 opening brackets costs time but no stack.
"""

import collections.abc
import pathlib
import re

from naiad.config.pbtxt.tokens import Kind, Token, line_starts, position_at, tokenize
from naiad.config.problem import Position, Problem
from naiad.core.record import Record

CLOSERS = {"{": "}", "<": ">", "[": "]"}
MOST_PROBLEMS = 100
"""A file with more problems is not a config; further ones would only hide the first."""

_LONGEST_MESSAGE = 400
"""Characters; it quotes the file, where a word may be a megabyte long."""


class EnoughError(Exception):
    """MOST_PROBLEMS are found."""


class Open(Record, frozen=True):
    """A bracket that is open, the field that it belongs to, and the names of the fields that may stand inside it."""

    token: Token
    owner: str
    fields: frozenset[str]

    @property
    def closer(self) -> str:
        """The sign that closes it."""
        return CLOSERS[self.token.text]

    @property
    def title(self) -> str:
        """What it opens, for messages."""
        return f'{"list" if self.closer == "]" else "block"} "{self.owner}"'


class Cursor:
    """The state of reading one file."""

    def __init__(self, text: str, *, path: pathlib.Path, fields: collections.abc.Set[str]) -> None:
        self.text = text
        self.path = path
        self.problems: list[Problem] = []
        self.warnings: list[str] = []
        self.open: list[Open] = []
        self.quoted_name_seen = False
        self._top_level = fields
        self._lines = text.split("\n")
        self._starts = line_starts(text)
        self._tokens = tokenize(text)
        self._at = 0
        self._missing = _missing_closers(self._tokens)

    # ---- reading

    @property
    def token(self) -> Token:
        """The next token, not taken yet."""
        return self._tokens[self._at]

    @property
    def previous(self) -> Token:
        """The token taken last."""
        return self._tokens[max(0, self._at - 1)]

    def ahead(self, steps: int = 1) -> Token:
        """A token further on; END beyond the last."""
        return self._tokens[min(self._at + steps, len(self._tokens) - 1)]

    def take(self) -> Token:
        """Take the next token; END is never used up."""
        token = self._tokens[self._at]
        if token.kind is not Kind.END:
            self._at += 1
        return token

    def at_symbol(self, symbols: str) -> bool:
        """Whether the next token is one of these signs."""
        return is_symbol(self.token, symbols)

    def take_if(self, symbol: str) -> bool:
        """Take the next token if it is this sign."""
        if not self.at_symbol(symbol):
            return False
        self._at += 1
        return True

    def skip_brackets(self) -> Token:
        """Skip from an opening bracket to the one that closes it, and return the last token taken.

        It stops before a line that starts a field of an enclosing block, when closing brackets are missing.
        """
        depth = 0
        while self.token.kind is not Kind.END:
            if depth and self._outdented(self.token):
                break
            token = self.take()
            if is_symbol(token, "{<["):
                depth += 1
            elif is_symbol(token, "}>]"):
                depth -= 1
                if depth == 0:
                    break
        return self.previous

    # ---- brackets

    def enter(self, owner: str, fields: frozenset[str]) -> None:
        """Take an opening bracket; `owner` and `fields` as in `Open`."""
        self.open.append(Open(self.take(), owner, fields))

    def at_end(self, *, after_comma: bool = False) -> bool:
        """Leave the innermost block or list when it ends here, and report a bracket that is missing or wrong.

        Returns:
            Whether it ends here; outside all brackets, whether the file does.
        """
        while is_symbol(self.token, "}>]"):
            if self._closed(after_comma=after_comma):
                return True
        token = self.token
        if token.kind is Kind.END:
            if self.open:
                self.close_missing("the file ends before")
            return True
        if self._outdented(token):
            self.close_missing(f'"{token.text}" in line {token.line} comes before')
            return True
        return False

    def _closed(self, *, after_comma: bool) -> bool:
        """Whether a closing bracket ends the innermost block or list; else it is reported and taken."""
        token = self.token
        if self.open and self._closes_outer(token):
            self.close_missing(f"what stands around it ends in line {token.line}")
            return True
        self.take()
        if not self.open or (token.text == "]" and self.open[-1].closer != "]"):
            self.report_token(
                token,
                f"this {token.text} closes nothing: every bracket before it is closed already",
                "remove it, or add the opening bracket that is missing",
            )
            return False
        entry = self.open.pop()
        if token.text != entry.closer:
            self.report_token(
                token,
                f"the {entry.title} was opened by {entry.token.text} in line {entry.token.line}"
                f" and cannot be closed by {token.text}",
                f"write {entry.closer}",
            )
        elif after_comma:
            comma = self._tokens[self._at - 2]
            self.report_token(comma, "a list does not end in a comma", "remove this comma")
        return True

    def close_missing(self, reason: str) -> None:
        """Report that the innermost bracket is never closed, at the bracket itself, and leave it."""
        entry = self.open.pop()
        self._missing -= 1
        self.report_token(
            entry.token,
            f"the {entry.title} that opens here is never closed: {reason}",
            f"add the missing {entry.closer}",
        )

    def separator_after_item(self) -> bool:
        """Take the comma after an item of the innermost list; report one that is missing. True when there was one."""
        if self.take_if(","):
            return True
        token = self.token
        if is_symbol(token, ";"):
            self.take()
            self.report_token(token, "the items of a list are separated by commas", "write a comma")
            return True
        if token.kind is Kind.END or is_symbol(token, "}>]") or self._outdented(token):
            return False
        if token.kind is Kind.WORD and is_symbol(self.ahead(), ":={["):
            return False
        self.report_token(
            token,
            f'there is no comma before this item of "{self.open[-1].owner}"',
            f"write a comma after {shown(self.previous)}",
        )
        return False

    def take_extra_separator(self) -> bool:
        """Take and report a comma or semicolon where an item belongs; False when there is none."""
        if not self.at_symbol(",;"):
            return False
        token = self.take()
        self.report_token(token, f"this {token.text} separates nothing", "remove it")
        return True

    def _closes_outer(self, token: Token) -> bool:
        """Whether a closing bracket belongs to a block further out than the innermost one.

        Either no other can be meant by its shape, or brackets are missing in this file and it stands further left
        than the line on which the innermost one was opened.
        """
        inner = self.open[-1]
        outer = [entry for entry in self.open[:-1] if entry.closer == token.text]
        if not outer:
            return False
        if token.text != inner.closer:
            return True
        return (
            self._missing > 0
            and token.first_on_line
            and token.line > inner.token.line
            and token.column < inner.token.indent
        )

    def _outdented(self, token: Token) -> bool:
        """Whether a token starts a line too far left to be inside the innermost bracket, and names a field further out."""
        if self._missing <= 0 or not self.open or token.kind is not Kind.WORD:
            return False
        inner = self.open[-1]
        if not (
            token.first_on_line
            and token.line > inner.token.line
            and token.column <= inner.token.indent
        ):
            return False
        return token.text in self._top_level or any(
            token.text in entry.fields for entry in self.open[:-1]
        )

    # ---- problems

    def report(self, position: Position | None, message: str, suggestion: str = "") -> None:
        """Add a problem.

        Raises:
            EnoughError: it was one too many.
        """
        if len(self.problems) >= MOST_PROBLEMS:
            raise EnoughError
        line = "" if position is None else self._lines[position.line - 1].removesuffix("\r")
        self.problems.append(
            Problem(
                path=self.path,
                position=position,
                message=_clipped(message),
                suggestion=_clipped(suggestion),
                line_text=line,
            )
        )

    def report_token(self, token: Token, message: str, suggestion: str = "") -> None:
        """Add a problem with a token; at the end of the file, with what stands last in it."""
        if token.kind is Kind.END and self._at > 0:
            last = self._tokens[len(self._tokens) - 2]
            token_position = Position(last.line, last.column + len(last.text))
        else:
            token_position = token.position()
        self.report(token_position, message, suggestion)

    def report_span(self, start: int, end: int, message: str, suggestion: str = "") -> None:
        """Add a problem with a stretch of text; only its first line is marked."""
        self.report(self.span(start, end), message, suggestion)

    def span(self, start: int, end: int) -> Position:
        """The place of a stretch of text, up to the end of its first line."""
        line_end = self.text.find("\n", start, end)
        return position_at(self._starts, start, end if line_end < 0 else line_end)


def is_symbol(token: Token, symbols: str) -> bool:
    """Whether a token is one of these signs."""
    return token.kind is Kind.SYMBOL and token.text in symbols


def shown(token: Token) -> str:
    """A token as a message quotes it: shortened when long."""
    return token.text if len(token.text) <= 40 else token.text[:37] + "…"  # noqa: PLR2004 - a message stays on its line


def _clipped(text: str) -> str:
    return text if len(text) <= _LONGEST_MESSAGE else text[:_LONGEST_MESSAGE] + "…"


def _missing_closers(tokens: list[Token]) -> int:
    """How many more brackets are opened than closed; negative when it is the other way round."""
    opened = sum(is_symbol(token, "{<[") for token in tokens)
    return opened - sum(is_symbol(token, "}>]") for token in tokens)


TEMPLATE = re.compile(
    r"\$\{[^}]*\}|\{\{[^{}]*\}\}|\{%.*?%\}|\$\w+|^<\w[\w -]*>$|@\w+@",
)
"""What a template leaves in place of a value."""


_TEMPLATE_IN_TEXT = re.compile(r"\$\{[^}]*\}|\{\{[^{}]*\}\}")
"""What of that cannot be meant in a text: `$TRITON_MODEL_DIRECTORY` and `a@b` can."""


def placeholder_in(text: str, *, quoted_text: bool = False) -> str | None:
    """The placeholder that a value without its quotes holds, or None. In `quoted_text`, `$`, `@` and `<` are letters like others."""
    match = (_TEMPLATE_IN_TEXT if quoted_text else TEMPLATE).search(text)
    return None if match is None else match[0]
