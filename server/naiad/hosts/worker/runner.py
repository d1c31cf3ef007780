"""Runs the batches of one instance in a worker process, and sends what comes of them."""

import contextlib
import logging
import os
import select
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from naiad.backends.instance import Execution, Instance, Response
from naiad.errors import ErrorCode, InferenceError, internal, unavailable
from naiad.hosts.link import codec, kinds, link
from naiad.hosts.link.payload import Payload
from naiad.hosts.worker import device, warmup
from naiad.hosts.worker.in_progress import RequestsInProgress
from naiad.hosts.worker.requests import ReceivedRequest, RequestReader
from naiad.hosts.worker.returned_inputs import refer_to_inputs
from naiad.tensors.region_files import Placed

DEVICE_LOST = 70
"""The exit status of a worker that cannot use its device any more."""

_log = logging.getLogger("naiad.worker")


class Runner:
    """Runs the batches of one instance, which come and go on a link of its own. Implements `Responder`.

    Args:
        data: its link.
        place: its place in the worker.
        ahead: shared by all instances of the worker.

    Attributes:
        link: the link.
        instance: the instance; None until it is loaded.
        name: its name.
    """

    def __init__(self, data: link.Link, place: int, ahead: "Ahead") -> None:
        self.link = data
        self.instance: Any = None
        self.name = ""
        self._requests = RequestReader()
        self._first = place << link.PLACE_SHIFT
        self._in_progress = RequestsInProgress(self._first)
        self._ahead = ahead
        self._process = os.getpid()

    def open(self, name: str, instance: Instance) -> None:
        """The instance is loaded."""
        self.name = name
        self.instance = instance
        instance.respond_through(self)

    def refuse(self, refusal: InferenceError) -> None:
        """The instance cannot be made."""
        findings = device.of(refusal)
        if findings.lost:
            self._announce_end(findings.lost)
        self.link.send(kinds.REFUSED, codec.write_failure(refusal))
        _act_on(findings)

    def warm_up(self) -> "list[warmup.WarmupBatch]":
        """Run the samples of the WARM_UP message that comes next.

        Raises:
            InferenceError: a sample failed, or the message could not be sent or received.
            LinkBrokenError: the server is gone.
        """
        try:
            kind, _, header = self.link.receive()
        except link.SegmentLostError as lost:
            raise not_taken(lost) from lost
        if kind != kinds.WARM_UP:
            raise unavailable("the server could not send the warmup samples")
        samples = warmup.received(self.link.base, header, self._first)
        try:
            return warmup.run(self.instance, samples, self._send_warming, time.monotonic_ns)
        finally:
            self.instance.respond_through(self)

    def _send_warming(self) -> None:
        self.link.notify(kinds.WARMING, b"")

    def serve(self) -> None:
        """Execute batches until the server says that it is the end, and close the instance.

        Raises:
            LinkBrokenError: the server is gone.
        """
        receive, shared = self.link.receive, self.link.shared_by_other
        while True:
            shared.drop_once()
            if shared.memory and not _comes(self.link, shared.memory.KEPT_S):
                shared.memory.clear()
            try:
                kind, number, header = receive()
            except link.SegmentLostError as lost:
                if lost.kind < kinds.NOTIFICATIONS:
                    self.link.send(kinds.OUTCOME, codec.write_failed_outcome(not_taken(lost)))
                continue
            if kind == kinds.BATCH:
                self._execute(header, number)
            elif kind == kinds.CLOSE:
                self.instance.close()
                return
            else:
                # The reply to a call for which the model waits no more: a signal's handler raised meanwhile.
                self.link.take_notification()

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
            self.link.send(kinds.OUTCOME, answer, payload)
        except (OSError, MemoryError) as error:  # there is no memory for it: nothing was sent
            _log.exception("a batch's answer could not be handed over")
            text = f"the answer of {0 if payload is None else payload.size} bytes could not be handed over: {error}"
            self.link.send(kinds.OUTCOME, codec.write_failed_outcome(internal(text)))
        if findings is not None:
            _act_on(findings)

    def _answer(
        self, header: "bytes | bytearray", first: int
    ) -> "tuple[bytes, Payload, list[InferenceError]]":
        """The outcome of a batch, and the errors in its responses."""
        requests = self._requests.read(self.link.base, header, first, self.link.shared_by_other)
        self._in_progress.begin(first, requests)
        lost = self.link.shared_by_other.lost
        if lost:
            execution = _without_lost(self.instance.execute, requests, lost)
        else:
            execution = self.instance.execute(requests)
        errors: list[InferenceError] = []
        for index, (request, response) in enumerate(zip(requests, execution.responses)):  # noqa: B905 - 3.8 knows no strict; the server checks
            if response is None:
                if index not in execution.rescheduled:
                    self._in_progress.defer(request)
            elif response.error is not None:
                errors.append(response.error)
            elif request.on_device is not None:
                if request.places_on_device and not request.cancelled:
                    _place_on_device(response, request.places_on_device)
                _lend(response, request.on_device)
        if self.link.shared_by_other.files:
            self._place(requests, execution.responses)
        files = self.link.shared_by_other.arrays
        if files and not execution.rescheduled:
            request = response = None  # type: ignore[assignment]  # references are counted
            refer_to_inputs(requests, execution.responses, files)
        answer, payload = codec.write_outcome(execution)
        return answer, payload, errors

    def _place(
        self, requests: "Sequence[ReceivedRequest]", responses: "Sequence[Response | None]"
    ) -> None:
        """Write outputs to their clients' shared memory, all of them together; those that cannot be written stay as they are."""
        writes: list[Any] = []
        written: list[tuple[list[Any], int]] = []
        for request, response in zip(requests, responses):  # noqa: B905 - as above
            if response is None or not request.places or request.cancelled:
                continue
            by_name = {name: place for name, *place in request.places}
            response.outputs = outputs = list(response.outputs)
            for at, (name, datatype, values) in enumerate(outputs):
                place = by_name.get(name)
                if place is not None and datatype != "BYTES":
                    number, offset, size = place
                    writes.append((number, values, offset, size))
                    written.append((outputs, at))
        for (outputs, at), values in zip(written, self.link.shared_by_other.files.write(writes)):  # noqa: B905 - as above
            name, datatype, _ = outputs[at]
            outputs[at] = name, datatype, values

    def _announce_end(self, why: str) -> None:
        """The process ends with its next message: the server gives it no more batches, and starts another one when it has ended."""
        _log.error("the worker ends: %s", why)
        with contextlib.suppress(link.LinkBrokenError):
            self.link.notify(kinds.ENDS, why.encode())

    def send(
        self, call: ReceivedRequest, response: "Response | None", *, final: bool, begun_ns: int
    ) -> None:
        """See `Responder`."""
        if response is not None and call.on_device is not None:
            _lend(response, call.on_device)
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
            self.link.notify(kinds.RESPONSE, header, payload, call.number)
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
        if kind == kinds.GET_READY:
            self._ask_whether_ready()
        elif kind == kinds.CANCEL:
            self._in_progress.cancel(number)
        elif kind in (kinds.PAUSE, kinds.RESUME):
            self._in_progress.pause(number, paused=kind == kinds.PAUSE)
        elif kind == kinds.PING and self.instance is not None:
            self.instance.ping(self._send_pong)

    def _ask_whether_ready(self) -> None:
        try:
            # A thread of its own, because a model may think about it for ever.
            threading.Thread(target=self._say_ready, name="naiad-ready", daemon=True).start()
        except (RuntimeError, MemoryError):  # the system has no more threads for it
            _log.exception("it could not be asked whether it is ready")
            self.link.notify(kinds.READY, b"", None, 0)

    def _send_pong(self) -> None:
        with contextlib.suppress(link.LinkBrokenError):
            self.link.notify(kinds.PONG, b"")

    def _say_ready(self) -> None:
        try:
            answer = bool(self.instance is not None and self.instance.ready())
        except BaseException:  # noqa: BLE001 - an exception of any kind means not ready (row 2.12)
            _log.exception("it could not say whether it is ready")
            answer = False
        with contextlib.suppress(link.LinkBrokenError):
            self.link.notify(kinds.READY, b"", None, int(answer))


def _comes(data: link.Link, seconds: float) -> bool:
    """Whether a message comes within a time."""
    waiting = select.poll()
    waiting.register(data.fileno(), select.POLLIN)
    return bool(waiting.poll(seconds * 1000))


def _without_lost(
    execute: "Callable[[Any], Execution[Response]]",
    requests: "Sequence[ReceivedRequest]",
    lost: "list[tuple[Any, tuple[str, str]]]",
) -> "Execution[Response]":
    """Run a batch without the requests whose inputs could not be read from their clients' shared memory; those are answered with why."""
    responses: list[Response | None] = [None] * len(requests)
    for index, request in enumerate(requests):
        for array, (code, why) in lost:
            # One on a device has no array of its own.
            if any("array" in each.__slots__ and each.array is array for each in request.inputs):
                responses[index] = Response([], {}, InferenceError(ErrorCode[code], why))
    lost.clear()
    places = [index for index, each in enumerate(responses) if each is None]
    if places:
        ran = execute([requests[index] for index in places])
    else:
        now = time.monotonic_ns()
        ran = Execution([], now, now)
    for index, response in zip(places, ran.responses):  # noqa: B905 - as above
        responses[index] = response
    again = [places[index] for index in ran.rescheduled]
    return Execution(responses, ran.input_end_ns, ran.output_start_ns, ran.padding_rows, again)


def _place_on_device(response: Response, places: "dict[str, Any]") -> None:
    """Write outputs that are on a device to their client's memory there; those that cannot be written stay as they are."""
    from naiad.hosts.worker.gpu.exports import device_array  # noqa: PLC0415 - most processes have no device

    outputs: list[tuple[str, str, Any]] = []
    for name, datatype, values in response.outputs:
        place = places.get(name)
        array = None if place is None or datatype == "BYTES" else device_array(values)
        if place is not None and array is not None and array.nbytes and place.take(array):
            outputs.append((name, datatype, Placed(array.shape)))
        else:
            outputs.append((name, datatype, values))
    response.outputs = outputs


def _lend(response: Response, on_device: Any) -> None:
    """Replace the outputs of a response that are on a device, and may stay there, by what is sent of them."""
    from naiad.hosts.worker.gpu.exports import EXPORTS  # noqa: PLC0415 - most processes have no device

    device, names = on_device
    response.outputs = [
        (
            name,
            datatype,
            EXPORTS.part(values, wanted=device)
            if datatype != "BYTES" and (names is None or name in names)
            else values,
        )
        for name, datatype, values in response.outputs
    ]


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


def not_taken(lost: link.SegmentLostError) -> InferenceError:
    """Why a message in turn fails whose segment did not come; the next one may."""
    return unavailable(f"its worker process could not take the request: {lost}")


class Ahead:
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
