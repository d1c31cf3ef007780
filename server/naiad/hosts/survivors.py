"""Ends what models have started when the server itself is killed: the system ends its workers with it, but not the workers' children.

A shell beside the server, started with the first worker, reads which process groups there are from a pipe. Nobody but the server
has the pipe's other end, so when the server is gone, whichever way, the shell reads to the end, ends the groups that are
left, and itself. It is in a session of its own and no child of the server, so that nobody takes it for a worker.

Limits: what has left its worker's process group stays; without /bin/sh nothing is started and everything with children of its own stays. In a
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

# What runs in the background reads from nowhere unless it is told where from. `groups` holds each group with a space on both sides.
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


class Survivors:
    """The process groups that nothing may be left of. From any thread."""

    def __init__(self) -> None:
        self._groups: set[int] = set()
        self._pipe = -1
        self._one = threading.Lock()

    def __contains__(self, group: int) -> bool:
        return group in self._groups

    def add(self, group: int) -> None:
        """A worker was started, which leads a group."""
        with self._one:
            self._groups.add(group)
            self._tell(f"+ {group}\n")

    def remove(self, group: int) -> None:
        """It is over, and so are all of its group."""
        with self._one:
            if group in self._groups:
                self._groups.remove(group)
                self._tell(f"- {group}\n")

    def _tell(self, line: str) -> None:
        if self._pipe >= 0:
            try:
                os.write(self._pipe, line.encode())
            except OSError:  # somebody ended it: another one is told everything
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
                    subprocess.run(  # noqa: S603 - our own words
                        [_SHELL, "-c", _SCRIPT],
                        stdin=source,
                        stdout=subprocess.DEVNULL,
                        stderr=subprocess.DEVNULL,
                        cwd="/",
                        env={},  # nothing in it may be taken for a group
                        start_new_session=True,
                        check=True,
                    )
                # A shell that does not read must not hold the server up.
                os.set_blocking(writing, False)
                os.write(writing, lines.encode())
            except (OSError, subprocess.CalledProcessError) as error:
                _log.debug("what models start would outlive a killed server: %s", error)
                return
            undo.pop_all()
            self._pipe = writing


SURVIVORS = Survivors()
"""Of this process."""
