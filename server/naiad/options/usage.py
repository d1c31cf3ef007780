"""What a mistake on the command line is, and what --help prints."""

import sys

import msgspec

from naiad.options.options import Options
from naiad.options.table import GROUPS, Flag


class UsageError(Exception):
    """The command line cannot be used; the message says which option and what to write instead."""


class HelpAsked(Exception):  # noqa: N818 - it is no error
    """--help was given."""


def usage(command: str) -> str:
    """What --help prints."""
    lines = [f"Usage: {command} [options]", "", "Defaults are in brackets.", ""]
    for group, flags in GROUPS.items():
        lines.append(f"{group}:")
        for flag in flags:
            word = "|".join(flag.choices) or flag.kind.value
            lines.append(f"  --{flag.name} <{word}>")
            default = _default(flag)
            lines.append(f"        {flag.help}" + (f" [{default}]" if default else ""))
        lines.append("")
    return "\n".join(lines)


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
    told = flag.help.replace("|", r"\|")  # or it would end the cell
    return f"| `--{flag.name}` | {value} | {default} | {told} |"


def _default(flag: Flag) -> str:
    fields = {field.name: field for field in msgspec.structs.fields(Options)}
    default = fields[flag.field].default if flag.field in fields else msgspec.NODEFAULT
    if default is msgspec.NODEFAULT:
        return ""
    return str(default).lower() if isinstance(default, bool) else str(default)


if __name__ == "__main__":
    sys.stdout.write(markdown())
