"""The error of a wrong command line, and the text of --help."""

import sys
import textwrap

import msgspec

from naiad.options.options import GROUPS, Flag, Options

_HELP_COLUMN = 38
_LEAST_COLUMNS = 70
"""The longest option fits into so many, with its text."""


class UsageError(Exception):
    """The command line cannot be used; the message says which option and what to write instead."""


class HelpAsked(Exception):  # noqa: N818 - it is no error
    """--help or --help-all was given.

    Args:
        everything: whether options that have no effect, or whose feature is not supported yet, are to be shown as well.
    """

    def __init__(self, *, everything: bool) -> None:
        super().__init__()
        self.everything = everything


def usage(command: str, *, columns: int, everything: bool = False) -> str:
    """What --help prints; no line is longer than the terminal has columns."""
    columns = max(columns, _LEAST_COLUMNS)
    lines = [f"Usage: {command} --model-repository DIR [options]"]
    intro = "--option=value and --option value are the same. Defaults are in brackets."
    lines += ["", *textwrap.wrap(intro, columns)]
    left_out = 0
    for group, flags in GROUPS.items():
        shown = [flag for flag in flags if everything or not (flag.idle or flag.missing)]
        left_out += len(flags) - len(shown)
        if shown:
            lines += ["", f"{group}:"]
            for flag in shown:
                lines += _entry(flag, columns)
    if left_out:
        more = (
            f"{left_out} more options of Triton's are known: they have no effect here, or their feature is not supported "
            f"yet. {command} --help-all lists them, too."
        )
        lines += ["", *textwrap.wrap(more, columns)]
    return "\n".join([*lines, ""])


def _entry(flag: Flag, columns: int) -> list[str]:
    """The option, and beside it what it does; below it where the option is long."""
    option = f"  --{flag.name} <{'|'.join(flag.choices) or flag.kind.value}>"
    default = _default(flag)
    text = textwrap.wrap(
        flag.help + (f" [{default}]" if default else ""),
        columns - _HELP_COLUMN,
        break_on_hyphens=False,
    )
    indent = " " * _HELP_COLUMN
    if len(option) + 2 > _HELP_COLUMN:
        return [option, *(indent + line for line in text)]
    return [option.ljust(_HELP_COLUMN) + text[0], *(indent + line for line in text[1:])]


def markdown() -> str:
    """The page docs/options.md; a test holds it to this table."""
    lines = [
        "# Options",
        "",
        "All options of `naiad serve`, which are also those of `tritonserver`. `--option=value` and `--option value` are the same; a boolean",
        "may stand alone for true. This page is written by `python -m naiad.options.usage`.",
    ]
    for group, flags in GROUPS.items():
        lines += ["", f"## {group}", "", "| option | value | default | |", "|---|---|---|---|"]
        lines += [_row(flag) for flag in flags]
    return "\n".join(lines) + "\n"


def _row(flag: Flag) -> str:
    value = ", ".join(f"`{choice}`" for choice in flag.choices) or flag.kind.value
    default = _default(flag)
    text = flag.help.replace("|", r"\|")  # or it would end the cell
    return f"| `--{flag.name}` | {value} | {default} | {text} |"


def _default(flag: Flag) -> str:
    fields = {field.name: field for field in msgspec.structs.fields(Options)}
    default = fields[flag.field].default if flag.field in fields else msgspec.NODEFAULT
    if default is msgspec.NODEFAULT:
        return ""
    return str(default).lower() if isinstance(default, bool) else str(default)


if __name__ == "__main__":
    sys.stdout.write(markdown())
