"""What tests ask about processes that may be ending."""

import psutil


def command_of(process: psutil.Process) -> str:
    """What a process was started as; "" once it has ended, also while nothing has taken its exit status yet."""
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""
