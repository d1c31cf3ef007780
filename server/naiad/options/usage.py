"""What a mistake on the command line is, and what --help prints."""

from naiad.options.table import GROUPS


class UsageError(Exception):
    """The command line cannot be used; the message says which option and what to write instead."""


class HelpAsked(Exception):  # noqa: N818 - it is no error
    """--help was given."""


def usage(command: str) -> str:
    """What --help prints."""
    lines = [f"Usage: {command} [options]", ""]
    for group, flags in GROUPS.items():
        lines.append(f"{group}:")
        for flag in flags:
            word = "|".join(flag.choices) or flag.kind.value
            lines.append(f"  --{flag.name} <{word}>")
            lines.append(f"        {flag.help}")
        lines.append("")
    return "\n".join(lines)
