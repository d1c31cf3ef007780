"""Kills the processes that models have started if the server itself is killed: the system ends its workers, but not the workers' children.

A shell beside the server, started with the first worker, reads the ids of process groups from a pipe. Only the server
holds the other end of the pipe, so when the server is gone for any reason, the shell reads end of file, kills the groups that are
left, and exits. It runs in its own session and is not a child of the server, so it cannot be mistaken for a worker.

Limits: a process that has left its worker's process group survives; without /bin/sh no shell is started and all such processes survive. In a
container whose first process is the server the system ends everything, and there is nothing to do.
"""

import contextlib
import logging
import os
import subprocess
import threading

_log = logging.getLogger(__name__)

_FIRST = 1
"""The id of a container's first process."""

_SHELL = "/bin/sh"

# A background job reads from /dev/null unless its input is redirected. `groups` holds each group with a space on both sides.
_SCRIPT = """
exec 3<&0
{
  trap '' HUP INT QUIT TERM
  while read -r what group; do
    case $what in
      +) groups="$groups $group " ;;
      -) groups="${groups%% $group *}${groups#* $group }" ;;
    esac
  done <&3
  for group in $groups; do kill -s KILL -- "-$group"; done
} &
"""


class OrphanReaper:
    """The process groups to kill. Thread-safe."""

    def __init__(self) -> None:
        self._groups: set[int] = set()
        self._pipe = -1
        self._one = threading.Lock()

    def __contains__(self, group: int) -> bool:
        return group in self._groups

    def add(self, group: int) -> None:
        """A worker was started, which leads a process group."""
        with self._one:
            self._groups.add(group)
            self._write(f"+ {group}\n")

    def remove(self, group: int) -> None:
        """The worker has ended, and so have all processes of its group."""
        with self._one:
            if group in self._groups:
                self._groups.remove(group)
                self._write(f"- {group}\n")

    def _write(self, line: str) -> None:
        if self._pipe >= 0:
            try:
                os.write(self._pipe, line.encode())
            except OSError:  # the shell was killed: start another one with all groups
                os.close(self._pipe)
                self._pipe = -1
            else:
                return
        if os.getpid() != _FIRST and self._groups:
            self._start("".join(f"+ {group}\n" for group in self._groups))

    def _start(self, lines: str) -> None:
        with contextlib.ExitStack() as undo:
            try:
                reading, writing = os.pipe()
                undo.callback(os.close, writing)
                with os.fdopen(reading, "rb") as source:
                    subprocess.run(  # noqa: S603 - a constant script
                        [_SHELL, "-c", _SCRIPT],
                        stdin=source,
                        stdout=subprocess.DEVNULL,
                        stderr=subprocess.DEVNULL,
                        cwd="/",
                        env={},  # no variable of it may affect the script
                        start_new_session=True,
                        check=True,
                    )
                # A shell that does not read must not block the server.
                os.set_blocking(writing, False)
                os.write(writing, lines.encode())
            except (OSError, subprocess.CalledProcessError) as error:
                _log.debug("processes that models start would survive a killed server: %s", error)
                return
            undo.pop_all()
            self._pipe = writing


ORPHAN_REAPER = OrphanReaper()
"""The reaper of this process."""
