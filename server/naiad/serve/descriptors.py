"""Raises the limit of open descriptors: each connection uses one, and each busy model instance two more.

A shell starts programs with a soft limit of 1,024 for programs that use `select`; the hard limit is for servers.
"""

import contextlib
import resource

MINIMUM = 64
"""Descriptors of a server with one model and a few connections. With fewer its start fails, not always with a clear message."""


def raise_limit() -> int:
    """Raise the soft limit to the hard one, if that is allowed.

    Returns:
        The current limit.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(ValueError, OSError):  # a system may set a lower bound of its own
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def too_few(limit: int) -> str:
    """Why a server cannot start with this limit; "" if it can."""
    if limit >= MINIMUM:
        return ""
    return (
        f"at most {limit} files and connections may be open (RLIMIT_NOFILE), but a server needs {MINIMUM}, and more with each connection and "
        "model instance: raise the hard limit (ulimit -Hn)"
    )
