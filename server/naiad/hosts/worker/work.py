"""What a worker process does: takes a batch, runs it, answers; see `main` for its threads and streams."""

import contextlib
import gc
import importlib
import json
import logging
import os
import socket
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from typing import Any

from naiad.backends.instance import Instance, InstanceSpec, LoadedModel, Response
from naiad.backends.python.api import context
from naiad.errors import InferenceError, internal, unavailable
from naiad.hosts.worker import codec, device, link
from naiad.hosts.worker.asking import AskingServer
from naiad.hosts.worker.payload import Payload
from naiad.hosts.worker.requests import ReceivedRequest, RequestReader, RequestsInProgress
from naiad.log_text import message_of

LOG_MARK = "\x1e"
"""In front of a line that is a log record: `[level, logger, path, line, message]` as JSON."""

_LONGEST = 80_000
"""Characters of a message; as JSON it has to fit into what the server takes for a record."""

_DEBUGGERS = frozenset(("debugpy", "pydevd", "pydevd_pycharm"))
"""Debuggers that stop all threads of a process."""

DEVICE_LOST = 70
"""The exit status of a worker that cannot use its device any more."""

_log = logging.getLogger("naiad.worker")


class Worker:
    """The worker: one thread per instance, the first of them the main thread, and one that listens to the server's notifications.

    Args:
        data: per instance, loads, batches and outcomes in turn, and whatever the worker posts; see `link`. Loads come on the first.
        control: what the server posts.
    """

    def __init__(self, data: "Sequence[socket.socket]", control: socket.socket) -> None:
        self._ahead = _Ahead()
        self._runners = [_Runner(each, place, self._ahead) for place, each in enumerate(data)]
        self._link = self._runners[0].link
        self._control = link.Link(control)
        self._model: Any = None
        self._server = AskingServer(self._link)

    def run(self) -> int:
        """Work until the server says that it is the end, or is gone; gives back the exit status."""
        threading.Thread(target=self._listen, name="naiad-control", daemon=True).start()
        try:
            kind, header = self._receive_order()
            if kind == link.ONE_SHOT:
                self._run_one_shot(header)
                return 0
            if not self._load(header):
                return 0
            self._runners[0].serve()
        except link.LinkBrokenError:
            return 1
        # The server ends a worker that has no batch, so the other threads wait for one.
        for runner in self._runners:
            runner.instance.close()
        self._model.close()
        return 0

    def _receive_order(self) -> "tuple[int, bytes | bytearray]":
        while True:
            try:
                kind, _, header = self._link.receive()
            except link.SegmentLostError as lost:
                self._link.send(link.REFUSED, codec.write_failure(_not_taken(lost)))
            else:
                return kind, header

    def _load(self, header: "bytes | bytearray") -> bool:
        context.worker_server = self._server
        order = codec.read_json(header)
        try:
            self._model, made = _guarded(_load_instances, order)
        except InferenceError as refusal:
            self._link.send(link.REFUSED, codec.write_failure(refusal))
            return False
        for runner, (spec, instance) in zip(self._runners, made):  # noqa: B905 - 3.8 knows no strict
            runner.open(spec.name, instance)
        # What is there now stays: looking through all of it again and again costs milliseconds in the middle of a batch.
        gc.freeze()
        threads = [runner.start() for runner in self._runners[1:]]
        prefetches = all(instance.prefetches for _, instance in made)
        loaded = {"threads": threads, "prefetches": prefetches}
        self._link.send(link.LOADED, codec.to_json(loaded).encode())
        return True

    def _run_one_shot(self, header: "bytes | bytearray") -> None:
        try:
            result = _guarded(_load, codec.read_json(header))
            self._link.send(link.DONE, codec.to_json(result).encode())
        except InferenceError as refusal:
            self._link.send(link.REFUSED, codec.write_failure(refusal))

    def _listen(self) -> None:
        self._ahead.listener = threading.get_ident()
        try:
            while True:
                try:
                    kind, number, header = self._control.receive()
                except link.SegmentLostError as lost:
                    self._server.failed(lost.number, f"its answer could not be received: {lost}")
                else:
                    self._hear(kind, number, header)
        except link.LinkBrokenError:
            pass
        except BaseException:  # noqa: BLE001 - the process ends, whatever it is
            # No cancel and no reply would be received any more, and calls that wait for one would wait for ever.
            _log.exception("the worker ends: it cannot listen to the server any more")
        os._exit(1)

    def _hear(self, kind: int, number: int, header: "bytes | bytearray") -> None:
        if kind == link.CREDIT:
            self._ahead.taken(number)
        elif kind == link.RESULT:
            self._server.on_reply(number, header, self._control.take_notification())
        elif kind == link.ERROR:
            self._server.failed(number, header.decode())
        elif kind == link.ASK_ALIVE:
            self._control.notify(link.ALIVE, b"", None, int(not _DEBUGGERS.isdisjoint(sys.modules)))
        else:
            self._runners[number >> link.PLACE_SHIFT].hear(kind, number)


class _Runner:
    """Runs the batches of one instance, which come and go on a link of its own. Implements `Responder`.

    Args:
        data: its socket.
        place: its position among the instances of the worker.
        ahead: shared by all of them.

    Attributes:
        link: the link.
        instance: the instance; None until it is loaded.
    """

    def __init__(self, data: socket.socket, place: int, ahead: "_Ahead") -> None:
        self.link = link.Link(data)
        self.instance: Any = None
        self._name = ""
        self._requests = RequestReader()
        self._in_progress = RequestsInProgress(place << link.PLACE_SHIFT)
        self._ahead = ahead
        self._process = os.getpid()

    def open(self, name: str, instance: Instance) -> None:
        """The instance is loaded."""
        self._name = name
        self.instance = instance
        instance.respond_through(self)

    def start(self) -> int:
        """Serve in a thread of its own; returns the system's id of it."""
        thread = threading.Thread(target=self._serve_apart, name=self._name, daemon=True)
        thread.start()
        return thread.native_id or 0

    def _serve_apart(self) -> None:
        try:
            self.serve()
        except link.LinkBrokenError:
            pass
        except BaseException:  # noqa: BLE001 - an instance without its thread would take batches and never answer
            _log.exception(
                "the worker ends: instance '%s' cannot receive batches any more", self._name
            )
        os._exit(1)

    def serve(self) -> None:
        """Execute batches until the server says that it is the end.

        Raises:
            LinkBrokenError: the server is gone.
        """
        receive = self.link.receive
        while True:
            try:
                kind, number, header = receive()
            except link.SegmentLostError as lost:
                self.link.send(link.OUTCOME, codec.write_failed_outcome(_not_taken(lost)))
                continue
            if kind == link.BATCH:
                self._execute(header, number)
            elif kind == link.CLOSE:
                return

    def _execute(self, header: "bytes | bytearray", first: int) -> None:
        payload = None
        findings: device.Findings | None = None
        try:
            answer, payload, errors = self._answer(header, first)
            if errors:
                findings = device.of(*errors)
        except InferenceError as refusal:
            answer = codec.write_failed_outcome(refusal)
            findings = device.of(refusal)
        except BaseException as error:  # noqa: BLE001 - also SystemExit: a model may not end the worker
            _log.exception("a batch failed")
            answer = codec.write_failed_outcome(internal(f"{type(error).__name__}: {error}"))
            findings = device.of(error)
        if os.getpid() != self._process:
            # A child that the model forked came back from execute as well: the answer is its parent's.
            os._exit(0)
        self._in_progress.ended()
        if findings is not None and findings.lost:
            self._announce_end(findings.lost)
        # The batch is let go by now, so that the answer says only what the model still holds of it.
        try:
            self.link.send(link.OUTCOME, answer, payload)
        except (OSError, MemoryError) as error:  # there is no memory for it: nothing was sent
            _log.exception("a batch's answer could not be handed over")
            text = f"the answer of {0 if payload is None else payload.size} bytes could not be handed over: {error}"
            self.link.send(link.OUTCOME, codec.write_failed_outcome(internal(text)))
        if findings is not None:
            _act_on(findings)

    def _answer(
        self, header: "bytes | bytearray", first: int
    ) -> "tuple[bytes, Payload, list[InferenceError]]":
        """The outcome of a batch, and the errors in its responses."""
        requests = self._requests.read(self.link.base, header, first)
        self._in_progress.begin(first, requests)
        execution = self.instance.execute(requests)
        errors: list[InferenceError] = []
        for request, response in zip(requests, execution.responses):  # noqa: B905 - 3.8 knows no strict; the server checks
            if response is None:
                self._in_progress.defer(request)
            elif response.error is not None:
                errors.append(response.error)
        answer, payload = codec.write_outcome(execution)
        return answer, payload, errors

    def _announce_end(self, why: str) -> None:
        """The process ends with its next message: the server gives it no more batches, and starts another one when it has ended."""
        _log.error("the worker ends: %s", why)
        with contextlib.suppress(link.LinkBrokenError):
            self.link.notify(link.ENDS, why.encode())

    def send(
        self, call: ReceivedRequest, response: "Response | None", *, final: bool, begun_ns: int
    ) -> None:
        """See `Responder`."""
        header, payload = codec.write_response(response, final=final, begun_ns=begun_ns)
        findings: device.Findings | None = None
        # Not in a child that the model forked, which has no device of its own.
        if response is not None and response.error is not None and os.getpid() == self._process:
            findings = device.of(response.error)
            if findings.lost:
                self._announce_end(findings.lost)
        size = payload.size + len(header)
        self._ahead.goes(size)
        try:
            self.link.notify(link.RESPONSE, header, payload, call.number)
        except BaseException:
            self._ahead.taken(size)
            raise
        if findings is not None:
            _act_on(findings)

    def wait_for_capacity(self, call: ReceivedRequest) -> None:
        """See `Responder`."""
        call.wait_for_capacity()

    def hear(self, kind: int, number: int) -> None:
        """A notification of the server that is about this instance, or a request of it; in the thread that listens."""
        if kind == link.GET_READY:
            self._ask_whether_ready()
        elif kind == link.CANCEL:
            self._in_progress.cancel(number)
        elif kind in (link.PAUSE, link.RESUME):
            self._in_progress.pause(number, paused=kind == link.PAUSE)
        elif kind == link.PING:
            self.instance.ping(self._send_pong)

    def _ask_whether_ready(self) -> None:
        try:
            # A thread of its own, because a model may think about it for ever.
            threading.Thread(target=self._say_ready, name="naiad-ready", daemon=True).start()
        except (RuntimeError, MemoryError):  # the system has no more threads for it
            _log.exception("it could not be asked whether it is ready")
            self.link.notify(link.READY, b"", None, 0)

    def _send_pong(self) -> None:
        with contextlib.suppress(link.LinkBrokenError):
            self.link.notify(link.PONG, b"")

    def _say_ready(self) -> None:
        try:
            answer = bool(self.instance is not None and self.instance.ready())
        except BaseException:  # noqa: BLE001 - an exception of any kind means not ready (row 2.12)
            _log.exception("it could not say whether it is ready")
            answer = False
        with contextlib.suppress(link.LinkBrokenError):
            self.link.notify(link.READY, b"", None, int(answer))


def _act_on(findings: device.Findings) -> None:
    """The errors were sent: end a process that cannot use its device any more, without what its model registered for the end."""
    if findings.out_of_memory:
        device.release_memory()
    if not findings.lost:
        return
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    os._exit(DEVICE_LOST)


def _not_taken(lost: link.SegmentLostError) -> InferenceError:
    """Why a message in turn fails whose segment did not come; the next one may."""
    return unavailable(f"its worker process could not take the request: {lost}")


def _load(order: "dict[str, Any]") -> Any:
    """What the callable of an order makes of its settings."""
    context.in_worker = True
    logging.basicConfig(handlers=[_ToServer()], level=logging.WARNING, force=True)
    logging.getLogger("naiad").setLevel(order["log_level"])
    module, _, name = order["load"].partition(":")
    return getattr(importlib.import_module(module), name)(order["settings"])


def _load_instances(
    order: "dict[str, Any]",
) -> "tuple[LoadedModel, list[tuple[InstanceSpec, Instance]]]":
    model = _load(order)
    specs = [InstanceSpec.from_map(each) for each in order["instances"]]
    return model, [(spec, model.make_instance(spec)) for spec in specs]


def _guarded(load: "Callable[[dict[str, Any]], Any]", order: "dict[str, Any]") -> Any:
    """Load.

    Raises:
        InferenceError: it refused, or raised whatever else.
    """
    try:
        return load(order)
    except InferenceError:
        raise
    except BaseException as error:
        # Also SystemExit: whatever it is, it is sent to the server.
        text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
        raise internal(text) from error


class _Ahead:
    """How far the model is ahead of the server: bytes of responses that this has not taken yet. While they are many, who sends waits.

    It waits for the server's loop, not for a client: coroutines as well, as they would where the socket is full. Without this a model
    with large responses could be a hundred of them ahead before a server that is busy with others could say that a client is slow.

    Attributes:
        listener: the thread that listens. It never waits, because it is the one that hears.
    """

    def __init__(self) -> None:
        self.listener = 0
        self._bytes = 0
        self._process = os.getpid()
        # Reentrant: a sender that the garbage collector finds fails its request in the middle of whatever its thread does.
        self._wakeup = threading.Condition(threading.RLock())

    def goes(self, size: int) -> None:
        """A response of so many bytes is about to go on its way."""
        with self._wakeup:
            while self._bytes > link.AHEAD_BYTES and self._may_wait():
                self._wakeup.wait()
            self._bytes += size

    def taken(self, size: int) -> None:
        """So many bytes have come."""
        with self._wakeup:
            self._bytes -= size
            self._wakeup.notify_all()

    def _may_wait(self) -> bool:
        # A child that the model forked has no listener.
        return threading.get_ident() != self.listener and os.getpid() == self._process


class _ToServer(logging.Handler):
    """Writes log records as lines for the server, wherever the model may have led or closed `sys.stderr` meanwhile."""

    def __init__(self) -> None:
        super().__init__()
        self._descriptor = os.dup(2)

    def emit(  # type: ignore[explicit-override]  # `override` is in no standard library of 3.8
        self, record: logging.LogRecord
    ) -> None:
        """See `logging.Handler`."""
        message = message_of(record)
        if record.exc_info:
            message += "\n" + "".join(traceback.format_exception(*record.exc_info)).rstrip()
        if len(message) > _LONGEST:
            message = f"{message[:_LONGEST]}… ({len(message) - _LONGEST} more characters)"
        fields = (record.levelno, record.name, record.pathname, record.lineno, message)
        # What was printed comes first. A line in one write, so that others come before or after it.
        for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
            # It may be closed, None or whatever a model put there.
            with contextlib.suppress(Exception):
                stream.flush()  # type: ignore[union-attr]  # see above
        line = memoryview((LOG_MARK + json.dumps(fields) + "\n").encode())
        with contextlib.suppress(OSError):  # the descriptor may be closed too
            while line:
                line = line[os.write(self._descriptor, line) :]
