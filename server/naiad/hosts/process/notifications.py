"""Notifications to a worker process: each is sent at once, or later if the worker does not read now."""

import asyncio
import collections
import logging
import socket

from naiad.hosts.link.kinds import ERROR, RESULT
from naiad.hosts.link.link import Link, LinkBrokenError
from naiad.hosts.link.payload import Payload
from naiad.hosts.process.output_log import Identity

_log = logging.getLogger(__name__)

_AGAIN_S = 0.05
"""When a notification is sent again for which there was no memory or descriptor."""


_Waiting = tuple[int, int, bytes, Payload | None, socket.socket | None]


class NotificationSender:
    """Sends the notifications of one worker process, in order.

    Args:
        identity: of the process, for messages.
        link: it sends on this link, on which nothing else is sent while a notification waits.
        loop: the event loop in which every method is called.
    """

    def __init__(self, identity: Identity, link: Link, *, loop: asyncio.AbstractEventLoop) -> None:
        self._identity = identity
        self._link = link
        self._loop = loop
        self._waiting: collections.deque[_Waiting] = collections.deque()
        self._retry: asyncio.TimerHandle | None = None

    def send(
        self,
        kind: int,
        number: int = 0,
        header: bytes = b"",
        payload: Payload | None = None,
        passed: socket.socket | None = None,
    ) -> None:
        """Send a notification: later if the worker does not read now, never if it is gone.

        A RESULT for which there is no memory or descriptor becomes an ERROR with the same number. A socket that is `passed` goes along with a
        small one, and is closed here once it is sent.
        """
        self._waiting.append((kind, number, header, payload, passed))
        if len(self._waiting) == 1:
            self._send_waiting()

    def _send_waiting(self) -> None:
        waiting = self._waiting
        self._retry = None
        try:
            while waiting:
                kind, number, header, payload, passed = waiting[0]
                try:
                    if passed is None:
                        self._link.notify(kind, header, payload, number)
                    else:
                        self._link.notify(kind, header, payload, number, passed.fileno())
                except (BlockingIOError, LinkBrokenError):
                    raise
                except Exception as error:  # noqa: BLE001  no message may keep those behind it, whatever is wrong with it
                    if not self._replaced(kind, number, error):
                        return
                else:
                    waiting.popleft()
                    if passed is not None:
                        passed.close()
        except BlockingIOError:
            self._loop.add_writer(self._link.fileno(), self._resume)
        except LinkBrokenError:
            self._drop()

    def _replaced(self, kind: int, number: int, error: Exception) -> bool:
        """The first notification cannot be sent: a RESULT becomes an ERROR; any other is sent again later."""
        if kind != RESULT:
            self._retry = self._loop.call_later(_AGAIN_S, self._send_waiting)
            return False
        _log.error("%s: the reply to one of its requests cannot be sent: %s", self._identity, error)
        why = f"the server could not send the reply: {error}"
        self._waiting[0] = (ERROR, number, why.encode(), None, None)
        return True

    def _resume(self) -> None:
        self._loop.remove_writer(self._link.fileno())
        self._send_waiting()

    def close(self) -> None:
        """Send no more; called before the link is closed."""
        if self._retry is not None:
            self._retry.cancel()
        self._drop()
        self._loop.remove_writer(self._link.fileno())

    def _drop(self) -> None:
        """Send none of those that wait."""
        for *_, passed in self._waiting:
            if passed is not None:
                passed.close()
        self._waiting.clear()
