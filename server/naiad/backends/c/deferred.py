"""Requests whose responses come after their batch, or several to one: `defer`, `response`, `send` and `end` of `naiad_host`.

Limits: those of `backends/instance.py`: standard library and numpy, Python 3.8.
"""

import threading
from typing import Any

from naiad.backends.c.memory import FreshMemory
from naiad.backends.c.outputs import BatchOutputs
from naiad.backends.c.rules import OutputRules
from naiad.backends.instance import Call, Responder

MORE, FINAL, DROP = 0, 1, 2

MAX_BEGUN = 1024
"""Responses of a request that may be begun and not sent; each holds the memory of its outputs."""


class DeferredRequest:
    """One of them. Any thread of the library may send.

    Args:
        call: the request.
        responder: takes its responses.
        rules: what outputs may be.
        who: names the instance, for messages.
        decoupled: whether it may get several responses, or none; else the first one is the last.
        begun_ns: when its batch began (monotonic).

    Attributes:
        begun: the contexts of the responses that were begun and not sent. They end with the request.
    """

    def __init__(
        self, call: Call, responder: Responder, rules: OutputRules, who: str, *, decoupled: bool, begun_ns: int
    ) -> None:  # fmt: skip
        self._call = call
        self._responder = responder
        self._rules = rules
        self._who = who
        self._decoupled = decoupled
        self._begun_ns = begun_ns
        self._lock = threading.Lock()
        self._over = False
        self.begun: set[int] = set()

    @property
    def over(self) -> bool:
        """Whether its last response was sent."""
        return self._over

    def begin(self) -> "BatchOutputs | None":
        """A response begins; None after the last one."""
        if self._over:
            return None
        return BatchOutputs([self._call], self._rules, FreshMemory(), who=self._who, decoupled=self._decoupled)  # fmt: skip

    def send(self, made: BatchOutputs, *, final: bool) -> bool:
        """Send a response; False if the last one was sent before."""
        final = final or not self._decoupled
        if not self._send(made.response(0), final=final):
            return False
        if not final:
            self._responder.wait_for_capacity(self._call)
        return True

    def end(self) -> bool:
        """No response follows; False if that was known."""
        if self._decoupled:
            return self._send(None, final=True)
        made = self.begin()
        if made is None:
            return False
        made.fail(0, 2, "it ended the request without a response, and the model is not decoupled")
        return self.send(made, final=True)

    def give_up(self) -> None:
        """It has begun so many responses without sending one that no more may begin: it ends with an error."""
        made = self.begin()
        if made is not None:
            made.fail(0, 2, f"it began {MAX_BEGUN:,} responses to the request and sent none of them")  # fmt: skip
            self._send(made.response(0), final=True)

    def close(self) -> None:
        """Its batch has failed, and the request with it."""
        with self._lock:
            self._over = True

    def cancelled(self, index: int) -> bool:
        """Whether its client has gone."""
        return not index and self._call.cancelled

    def _send(self, response: Any, *, final: bool) -> bool:
        with self._lock:
            if self._over:
                return False
            self._over = final
            self._responder.send(self._call, response, final=final, begun_ns=self._begun_ns)
        return True
