"""Host policies: the processors that a thread may run on, and the NUMA node that its memory comes from; threads that it starts inherit both.

Limits: the standard library in Python 3.8, as it also runs in worker processes.
"""

import contextlib
import ctypes
import errno
import os
import platform
from pathlib import Path
from typing import Iterator, NamedTuple, Optional, Tuple  # noqa: UP035 - 3.8 cannot subscript the built-in ones

_MPOL_DEFAULT, _MPOL_BIND = 0, 2
_SET_MEMPOLICY = {"x86_64": 238, "aarch64": 237}
"""The number of the system call by machine: there is no function for it in libc."""

_NODES = Path("/sys/devices/system/node")
_BITS_PER_WORD = ctypes.sizeof(ctypes.c_ulong) * 8


class HostPolicy(NamedTuple):
    """Where an instance runs (`--host-policy`).

    Attributes:
        cores: the processors; empty for those of the server.
        numa_node: the node of its memory; None for where the system takes it.
    """

    cores: Tuple[int, ...] = ()  # noqa: UP006 - as above
    numa_node: Optional[int] = None  # noqa: UP045 - as above


def fault(policy: HostPolicy) -> str:
    """Why this machine cannot follow a policy, as the end of a sentence; "" if it can."""
    allowed = os.sched_getaffinity(0)
    missing = sorted(set(policy.cores) - allowed)
    if missing:
        return f"cpu-cores names {_ranges(missing)}, and this process may run on {_ranges(sorted(allowed))}"
    if policy.numa_node is None:
        return ""
    if not (_NODES / f"node{policy.numa_node}").is_dir() and (_NODES.is_dir() or policy.numa_node):
        known = sorted(int(each.name[4:]) for each in _NODES.glob("node[0-9]*")) or [0]
        return f"numa-node is {policy.numa_node}, and this machine has {_ranges(known)}"
    return ""


def place(policy: HostPolicy) -> None:
    """Have the calling thread follow a policy, and every thread that it starts from now on.

    Raises:
        OSError: the system does not allow it; the message says what to do.
    """
    if policy.cores:
        try:
            os.sched_setaffinity(0, policy.cores)
        except OSError as error:
            raise OSError(
                error.errno,
                f"host policy: cpu-cores {_ranges(list(policy.cores))} cannot be used: {error.strerror}",
            ) from error
    if policy.numa_node is not None:
        _bind_memory(policy.numa_node)


@contextlib.contextmanager
def placed(policy: Optional[HostPolicy]) -> Iterator[None]:  # noqa: UP045 - as above
    """Have the calling thread follow a policy for a while; None: as it is.

    Raises:
        OSError: as for `place`.
    """
    if policy is None:
        yield
        return
    before = os.sched_getaffinity(0)
    try:
        place(policy)
        yield
    finally:
        os.sched_setaffinity(0, before)
        if policy.numa_node is not None:
            with contextlib.suppress(OSError):
                _set_mempolicy(_MPOL_DEFAULT, None)


def _bind_memory(node: int) -> None:
    try:
        _set_mempolicy(_MPOL_BIND, node)
    except OSError as error:
        instead = "leave numa-node out"
        if error.errno == errno.EPERM:
            instead = f"give the container the capability SYS_NICE, or {instead}"
        raise OSError(
            error.errno,
            f"host policy: memory of NUMA node {node} cannot be bound: {error.strerror}; {instead}",
        ) from error


def _set_mempolicy(mode: int, node: Optional[int]) -> None:  # noqa: UP045 - as above
    number = _SET_MEMPOLICY.get(platform.machine())
    if number is None:
        raise OSError(errno.ENOSYS, f"not known on {platform.machine()}")
    words = 0 if node is None else node // _BITS_PER_WORD + 1
    mask = (ctypes.c_ulong * max(1, words))()
    if node is not None:
        mask[node // _BITS_PER_WORD] = 1 << node % _BITS_PER_WORD
    libc = ctypes.CDLL(None, use_errno=True)
    most = ctypes.c_ulong(words * _BITS_PER_WORD + 1 if words else 0)
    if libc.syscall(ctypes.c_long(number), ctypes.c_int(mode), mask if words else None, most):
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def _ranges(numbers: "list[int]") -> str:
    """Numbers in ascending order as `0-3, 7`."""
    found: "list[list[int]]" = []  # noqa: UP037 - as above
    for number in numbers:
        if found and found[-1][1] == number - 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in found)
