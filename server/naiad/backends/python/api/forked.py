"""What a model asks in a process that it forked (multiprocessing.Pool, os.fork): the process of the model asks for it.

A child has the memory of its parent, but its link to the server would be the parent's own: replies would go to the process that reads them
first. So each fork makes a pipe; the child writes its calls into it, and a thread of the parent makes them and writes the replies back.

Limits: processes that are started by `spawn` or `forkserver` know no model and cannot call others.
"""

import os
import queue
import threading
from typing import Any

from naiad.backends.python.api import context
from naiad.backends.python.api.errors import TritonError, TritonModelException
from naiad.backends.python.api.response import InferenceResponse
from naiad.backends.python.api.server import NO_SERVER, wait_for_response

_GONE = "the process of the model, which asks the server for the processes that it forked, is gone"


class Forks:
    """The forks of this process, and what it is itself.

    Attributes:
        relay: in a forked process, whom to ask in place of the server; None in the process of the model.
    """

    def __init__(self) -> None:
        self.relay: Relay | None = None
        self._forking = threading.Lock()
        self._pipe: Any = None
        self._ends: set[Any] = set()

    def before(self) -> None:
        """A fork begins, in this thread."""
        self._forking.acquire()
        known = _running()
        if known:
            from multiprocessing import connection  # noqa: PLC0415 - takes milliseconds, and most models never fork

            self._pipe = (*connection.Pipe(), known)

    def in_parent(self) -> None:
        """It is over, or failed."""
        pipe, self._pipe = self._pipe, None
        if pipe is not None:
            ours, its, known = pipe
            its.close()
            self._ends.add(ours)
            threading.Thread(
                target=self._serve, args=(ours, known), name="naiad-forked", daemon=True
            ).start()
        self._forking.release()

    def in_child(self) -> None:
        """This is the new process."""
        pipe, self._pipe = self._pipe, None
        for end in self._ends:
            end.close()
        self._ends = set()
        self._forking = threading.Lock()
        if pipe is not None:
            ours, its, _ = pipe
            ours.close()
            self.relay = Relay(its)

    def _serve(self, end: Any, known: "dict[int, context.Running]") -> None:
        try:
            _Answering(end, known).run()
        finally:
            self._ends.discard(end)
            end.close()


def _running() -> "dict[int, context.Running]":
    """Whose code may ask in a process that is forked now, by where it lies in memory, which is the same in the child."""
    every = [context.current.get(), context.only]
    for instances in tuple(context.of_module.values()):
        every += instances
    return {
        id(instance): instance
        for instance in every
        if instance is not None and instance.server is not NO_SERVER
    }


class Relay:
    """The child's side of a pipe; implements `Server`."""

    def __init__(self, end: Any) -> None:
        self._end = end
        self._mutex = threading.Lock()
        self._number = 0
        self._answers: dict[int, Any] = {}
        self._listens = False

    def infer(self, outgoing: Any, *, caller: Any, decoupled: bool, deliver: Any) -> Any:
        """See `Server`."""
        number = self._post("infer", id(caller), (outgoing, decoupled), deliver)
        return lambda: self._post("cancel", id(caller), (number,), None)

    def infer_and_wait(self, outgoing: Any, *, caller: Any) -> InferenceResponse:
        """See `Server`."""
        return wait_for_response(self, outgoing, caller=caller)

    def close_family(self, family: int) -> None:
        """See `Server`."""
        self._post("notification", 0, ("close_family", (family,), {}), None)

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any, caller: Any = None, **named: Any) -> Any:
            answer: queue.SimpleQueue[Any] = queue.SimpleQueue()
            if caller is not None:
                named["caller"] = True

            def on_reply(error: "str | None", value: Any) -> None:
                answer.put((error, value))

            self._post("call", id(caller), (name, arguments, named), on_reply)
            error, value = answer.get()
            if error is not None:
                raise TritonModelException(error)
            return value

        return call

    def _post(self, what: str, caller: int, content: Any, answer: Any) -> int:
        with self._mutex:
            self._number += 1
            number = self._number
            if answer is not None:
                self._answers[number] = answer
                if not self._listens:
                    self._listens = True
                    threading.Thread(target=self._listen, name="naiad-relay", daemon=True).start()
            try:
                self._end.send((what, number, caller, content))
            except OSError:
                self._answers.pop(number, None)
                raise TritonModelException(_GONE) from None
        return number

    def _listen(self) -> None:
        try:
            while True:
                number, over, content = self._end.recv()
                answer = self._answers.pop(number) if over else self._answers[number]
                answer(*content)
        except (EOFError, OSError):
            # Calls that wait would wait for ever.
            os._exit(1)


class _Answering:
    """The parent's side of one child; `known` are those whose code may ask."""

    def __init__(self, end: Any, known: "dict[int, context.Running]") -> None:
        self._end = end
        self._known = known
        self._cancels: dict[int, Any] = {}
        # Answers are put by a thread of their own: who delivers them may not wait for a child that does not read.
        self._out: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._sends = False

    def run(self) -> None:
        """Until the child is gone."""
        try:
            while True:
                self._take(*self._end.recv())
        except (EOFError, OSError):
            for cancel in tuple(self._cancels.values()):
                cancel()
        finally:
            self._out.put(None)

    def _take(self, what: str, number: int, caller: int, content: Any) -> None:
        running = self._known.get(caller) or next(iter(self._known.values()))
        if what == "cancel":
            cancel = self._cancels.get(content[0])
            if cancel is not None:
                cancel()
        elif what == "infer":
            outgoing, decoupled = content
            self._infer(running, number, outgoing, decoupled=decoupled)
        else:
            answer = _answer(running, *content)
            if what == "call":
                self._put((number, True, answer))

    def _infer(
        self, running: "context.Running", number: int, outgoing: Any, *, decoupled: bool
    ) -> None:
        over: list[bool] = []

        def deliver(response: InferenceResponse, final: bool) -> None:  # noqa: FBT001 - a callback
            if final:
                over.append(True)
                self._cancels.pop(number, None)
            self._put((number, final, (response, final)))

        try:
            cancel = here(running.server).infer(
                outgoing, caller=running, decoupled=decoupled, deliver=deliver
            )
        except TritonModelException as error:
            deliver(InferenceResponse(error=TritonError(str(error))), True)
            return
        self._cancels[number] = cancel
        if over:
            self._cancels.pop(number, None)

    def _put(self, answer: Any) -> None:
        if not self._sends:
            self._sends = True
            threading.Thread(target=self._send, name="naiad-forked-out", daemon=True).start()
        self._out.put(answer)

    def _send(self) -> None:
        for answer in iter(self._out.get, None):
            try:
                self._end.send(answer)
            except (OSError, ValueError):
                return


def _answer(
    running: "context.Running", name: str, arguments: "tuple[Any, ...]", named: "dict[str, Any]"
) -> "tuple[str | None, Any]":
    if named.pop("caller", False):
        named["caller"] = running
    try:
        return None, getattr(here(running.server), name)(*arguments, **named)
    except TritonModelException as error:
        return str(error), None


forks = Forks()
os.register_at_fork(
    before=forks.before, after_in_parent=forks.in_parent, after_in_child=forks.in_child
)


def here(server: Any) -> Any:
    """Whom to ask in this process: the server, or in a forked process the relay."""
    return forks.relay or server
