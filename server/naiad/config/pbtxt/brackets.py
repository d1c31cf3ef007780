"""The ends of blocks and lists: the brackets that close them and the commas between items.

A problem with a bracket is reported once, at the bracket to fix: the opening one when the closing one is missing.
"""

from typing import Any

from naiad.config.pbtxt.cursor import Cursor, is_symbol, shown
from naiad.config.pbtxt.tokens import Kind, Token


def closing(cursor: Cursor, token: Token) -> bool:
    """Handle a closing bracket; True when the innermost block ends here."""
    if cursor.open and cursor.closes_outer(token):
        cursor.close_missing(f"what stands around it ends in line {token.line}")
        return True
    if cursor.open and token.text == cursor.open[-1].closer:
        cursor.close()
        return True
    if cursor.open and token.text != "]":
        entry = cursor.open[-1]
        cursor.report_token(
            token,
            f'the block "{entry.owner}" was opened by {entry.token.text} in line {entry.token.line}'
            f" and cannot be closed by {token.text}",
            f"write {entry.closer}",
        )
        cursor.close()
        return True
    cursor.take()
    cursor.report_token(
        token,
        f"this {token.text} closes nothing: every bracket before it is closed already",
        "remove it, or add the opening bracket that is missing",
    )
    return False


def list_ends(cursor: Cursor, *, after_comma: bool) -> bool:
    """Take the bracket that ends the list, or report another one in its place; True when the list ends here."""
    token = cursor.token
    if token.kind is Kind.END:
        cursor.close_missing("the file ends before")
        return True
    if cursor.outdented(token):
        cursor.close_missing(f'"{token.text}" in line {token.line} comes before')
        return True
    if not is_symbol(token, "}>]"):
        return False
    if token.text == "]" and not cursor.closes_outer(token):
        if after_comma:
            comma = cursor.previous
            cursor.report_token(comma, "a list does not end in a comma", "remove this comma")
        cursor.close()
        return True
    if cursor.closes_outer(token):
        cursor.close_missing(f"what stands around it ends in line {token.line}")
        return True
    entry = cursor.open[-1]
    cursor.report_token(
        token,
        f'the list "{entry.owner}" was opened by [ in line {entry.token.line} and cannot be closed by {token.text}',
        "write ]",
    )
    cursor.close()
    return True


def list_separator(cursor: Cursor, field: Any) -> bool:
    """Take the comma after an item; report one that is missing. True when there was one."""
    if cursor.take_if(","):
        return True
    token = cursor.token
    if is_symbol(token, ";"):
        cursor.take()
        cursor.report_token(token, "the items of a list are separated by commas", "write a comma")
        return True
    if token.kind is Kind.END or is_symbol(token, "}>]") or cursor.outdented(token):
        return False
    if token.kind is Kind.WORD and is_symbol(cursor.ahead(), ":={["):
        return False
    cursor.report_token(
        token,
        f'there is no comma before this item of "{field.name}"',
        f"write a comma after {shown(cursor.previous)}",
    )
    return False


def extra_separator(cursor: Cursor) -> None:
    """Take and report a comma or semicolon where an item belongs."""
    token = cursor.take()
    cursor.report_token(token, f"this {token.text} separates nothing", "remove it")
