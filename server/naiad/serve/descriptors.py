"""As many open descriptors as the system lets this process have: each connection is one, each busy model instance two more.

A shell starts programs with 1,024, for the sake of programs that use `select`; the hard limit is meant for servers.
"""

import contextlib
import resource


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
