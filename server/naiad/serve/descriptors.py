"""As many open descriptors as the system lets this process have: each connection is one, each busy model instance two more.

A shell starts programs with 1,024, for the sake of programs that use `select`; the hard limit is meant for servers.
"""

import contextlib
import resource

LEAST = 64
"""Descriptors of a server with one model and a few connections. With less it fails somewhere at its start, not always in words."""


def raise_limit() -> int:
    """Raise the soft limit to the hard one, where that is allowed.

    Returns:
        The limit that holds now.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(ValueError, OSError):  # a system may set a lower bound of its own
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def too_few(limit: int) -> str:
    """Why a server cannot start with this limit; "" when it can."""
    if limit >= LEAST:
        return ""
    return (
        f"at most {limit} files and connections may be open (RLIMIT_NOFILE), but a server needs {LEAST}, and more with each connection and "
        "model instance: raise the hard limit (ulimit -Hn)"
    )
