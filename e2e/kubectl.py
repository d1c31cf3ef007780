"""Runs kubectl."""

import subprocess
from collections.abc import Sequence


class KubectlError(RuntimeError):
    """kubectl failed; the message has what it printed."""


def output(command: Sequence[str], arguments: Sequence[str], text: str = "") -> str:
    """What kubectl printed.

    Args:
        command: the whole command line.
        arguments: the part of it that the caller chose, for the message.
        text: its standard input.

    Raises:
        KubectlError: it failed.
    """
    # Ctrl-C goes to this process alone, which ends kubectl, or goes on removing what it has installed.
    finished = subprocess.run(command, input=text, capture_output=True, text=True, check=False, process_group=0)  # fmt: skip
    if finished.returncode:
        raise KubectlError(f"kubectl {' '.join(arguments)}: {finished.stderr.strip()}")
    return finished.stdout
