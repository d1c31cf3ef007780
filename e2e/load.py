"""Requests at a steady rate, over connections that stay open, and what became of each: for stories in which no request may fail."""

import contextlib
import dataclasses
import functools
import pathlib
import queue
import threading
import time
import typing
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import tritonclient.grpc
import tritonclient.http
import tritonclient.utils

from e2e.kubernetes import Kubernetes

Send = Callable[[], None]
"""Sends one request and waits for its response; raises when there is none or a wrong one."""

Sender = Callable[[], contextlib.AbstractContextManager[Send]]
"""Opens a connection for requests; the connection is closed at the end of the context."""


@dataclasses.dataclass(frozen=True, slots=True)
class Access:
    """How a client reaches a service behind TLS, or with tokens.

    Attributes:
        authority: the certificate of the authority that TLS is verified with; None: no TLS.
        token: what `Authorization` says after `Bearer`; "": no such header.
    """

    authority: pathlib.Path | None = None
    token: str = ""

    @property
    def headers(self) -> dict[str, str]:
        """The headers, or the metadata, of each request."""
        return {"authorization": f"Bearer {self.token}"} if self.token else {}


OPEN = Access()

_NUDGE_S = 3
"""Then another request is sent: Traefik 3.6.6 passes on that a server has ended a stream only with the client's next message."""

_NO_TRAILERS = "Data frame with END_STREAM flag received"
"""What gRPC says of a stream that a server ended before its first response: Traefik turns the only header into one without trailers."""

KEPT_STREAMS = 2
"""Streams of `mixed` that stay open."""

_TEXT = b"to be or not to be"
_EXPECTED = 6
_TIMEOUT_S = 20
_ROUTE_S = 2.5 * _TIMEOUT_S
"""A connection to a Service that kube-proxy has not yet noticed hangs until its request's timeout; the next one gets through."""


@dataclasses.dataclass(slots=True)
class Result:
    """What became of the requests so far.

    Attributes:
        sent: how many have ended.
        slowest: how long the slowest took, in seconds.
        failures: seconds since the start and the error, of each that failed.
    """

    sent: int = 0
    slowest: float = 0.0
    failures: "list[tuple[float, str]]" = dataclasses.field(default_factory=list)


@contextlib.contextmanager
def running(senders: Sequence[Sender], *, rate: float) -> Iterator[Result]:  # fmt: skip
    """Sends requests for the length of a context: one thread per sender, `rate` requests per second together."""
    result = Result()
    ended = threading.Event()
    lock = threading.Lock()
    started = time.monotonic()
    period = len(senders) / rate

    def work(sender: Sender, offset: float) -> None:
        due = time.monotonic() + offset
        with sender() as send:
            while not ended.wait(max(0.0, due - time.monotonic())):
                due = max(due + period, time.monotonic() - 1)
                began = time.monotonic()
                try:
                    send()
                except Exception as error:  # noqa: BLE001 - whatever a client raises, the request failed
                    with lock:
                        result.failures.append(
                            (time.monotonic() - started, f"{type(error).__name__}: {error}"[:200])
                        )
                finally:
                    with lock:
                        result.sent += 1
                        result.slowest = max(result.slowest, time.monotonic() - began)

    threads = [
        threading.Thread(target=work, args=(sender, number * period / len(senders)), daemon=True)
        for number, sender in enumerate(senders)
    ]
    for thread in threads:
        thread.start()
    try:
        yield result
    finally:
        ended.set()
        for thread in threads:
            thread.join(_TIMEOUT_S + 5)


def responds(sender: Sender, errors: "list[str] | None" = None) -> bool:
    """Whether one request succeeds, e.g. to wait for a route that the controller has not noticed yet; its error is added to `errors`."""
    try:
        with sender() as send:
            send()
    except Exception as error:  # noqa: BLE001 - whatever a client raises
        if errors is not None:
            errors.append(f"{type(error).__name__}: {error}"[:200])
        return False
    return True


def wait_for_routes(kubernetes: Kubernetes, *senders: Sender) -> None:
    """Waits until each sender's request succeeds: an ingress controller notices a route a moment after the service is Ready."""
    for sender in senders:
        errors: list[str] = []
        kubernetes.wait(
            "the route",
            functools.partial(responds, sender, errors),
            seen=lambda: f"{errors[-1]} ({len(errors)} requests)",  # noqa: B023 - called in this round
            timeout=_ROUTE_S,
        )


def http_client(
    host: str, access: Access = OPEN, *, timeout: float = _TIMEOUT_S
) -> tritonclient.http.InferenceServerClient:
    """A client of HTTP, or HTTPS; `timeout` in seconds."""
    options = {"ca_certs": str(access.authority)} if access.authority else None
    return tritonclient.http.InferenceServerClient(host, connection_timeout=timeout, network_timeout=timeout, ssl=options is not None, ssl_options=options)  # fmt: skip


def grpc_client(host: str, access: Access = OPEN) -> tritonclient.grpc.InferenceServerClient:
    """A client of gRPC."""
    authority = str(access.authority) if access.authority else None
    return tritonclient.grpc.InferenceServerClient(host, ssl=authority is not None, root_certificates=authority)  # fmt: skip


@contextlib.contextmanager
def http(host: str, access: Access = OPEN, *, timeout: float = _TIMEOUT_S) -> Iterator[Send]:
    """Requests over one kept connection of HTTP, each with a timeout in seconds."""
    client = http_client(host, access, timeout=timeout)

    def send() -> None:
        _check(client.infer("word_count", [_tensor(tritonclient.http)], headers=access.headers))

    try:
        yield send
    finally:
        client.close()


@contextlib.contextmanager
def grpc(host: str, access: Access = OPEN, *, timeout: float = _TIMEOUT_S) -> Iterator[Send]:
    """Unary calls over one channel of gRPC, each with a timeout in seconds."""
    client = grpc_client(host, access)

    def send() -> None:
        tensor = _tensor(tritonclient.grpc)
        _check(client.infer("word_count", [tensor], headers=access.headers, client_timeout=timeout))  # fmt: skip

    try:
        yield send
    finally:
        client.close()


@contextlib.contextmanager
def grpc_stream(host: str, access: Access = OPEN) -> Iterator[Send]:
    """One stream of gRPC per request: opened, one request and its response, closed."""
    client = grpc_client(host, access)

    def send() -> None:
        responses: queue.SimpleQueue[tuple[typing.Any, typing.Any]] = queue.SimpleQueue()
        client.start_stream(lambda result, error: responses.put((result, error)), stream_timeout=_TIMEOUT_S, headers=access.headers)  # fmt: skip
        try:
            client.async_stream_infer("word_count", [_tensor(tritonclient.grpc)])
            result, error = responses.get(timeout=_TIMEOUT_S)
            if error is not None:
                raise error
            _check(result)
        finally:
            client.stop_stream()

    try:
        yield send
    finally:
        client.close()


@contextlib.contextmanager
def grpc_kept_stream(host: str, *, ended: "list[str]") -> Iterator[Send]:
    """One stream of gRPC for all requests. A server that stops ends it with UNAVAILABLE; the request is then sent once more, on a new stream.

    Args:
        host: and its port.
        ended: gets the error of each stream that a server has ended so.
    """
    stream = _KeptStream(host, ended)
    try:
        yield stream.send
    finally:
        stream.close()


class _KeptStream:
    """See `grpc_kept_stream`."""

    def __init__(self, host: str, ended: "list[str]") -> None:
        self._client = grpc_client(host)
        self._ended = ended
        self._responses: queue.SimpleQueue[tuple[typing.Any, typing.Any]] = queue.SimpleQueue()
        self._open()

    def send(self) -> None:
        """See `Send`."""
        try:
            result = self._exchange()
        except tritonclient.utils.InferenceServerException as error:
            self._client.stop_stream()
            self._open()
            if error.status() != "StatusCode.UNAVAILABLE" and _NO_TRAILERS not in str(error):
                raise
            self._ended.append(str(error))
            result = self._exchange()
        _check(result)

    def close(self) -> None:
        """Ends the stream and the connection."""
        self._client.stop_stream()
        self._client.close()

    def _open(self) -> None:
        while not self._responses.empty():  # of the stream before
            self._responses.get()
        self._client.start_stream(lambda result, error: self._responses.put((result, error)))

    def _exchange(self) -> typing.Any:
        """The result of a request; for one without any for a while, that of another after it."""
        try:
            return self._result(_NUDGE_S)
        except queue.Empty:
            self._result(_TIMEOUT_S)
            return self._received(_TIMEOUT_S)

    def _result(self, timeout: float) -> typing.Any:
        # Refused by a stream that has ended, whose error is among the responses.
        with contextlib.suppress(tritonclient.utils.InferenceServerException):
            self._client.async_stream_infer("word_count", [_tensor(tritonclient.grpc)])
        return self._received(timeout)

    def _received(self, timeout: float) -> typing.Any:
        result, error = self._responses.get(timeout=timeout)
        if error is not None:
            raise error
        return result


def both(host: str) -> tuple[Sender, Sender]:
    """A connection of HTTP and one of gRPC to a service behind an ingress, gRPC at `grpc.<host>`."""
    return functools.partial(http, f"{host}:80"), functools.partial(grpc, f"grpc.{host}:80")


def mixed(host: str, ended: "list[str]") -> list[Sender]:
    """Sixteen connections to a service behind an ingress: HTTP, gRPC at `grpc.<host>`, and streams of gRPC, two with one request and two with all.

    Args:
        host: of HTTP.
        ended: gets the error of each stream that a server has ended because it stops.
    """
    over_http, over_grpc = both(host)
    streamed = functools.partial(grpc_stream, f"grpc.{host}:80")
    kept = functools.partial(grpc_kept_stream, f"grpc.{host}:80", ended=ended)
    return [*[over_http] * 7, *[over_grpc] * 5, *[streamed] * 2, *[kept] * KEPT_STREAMS]


def _tensor(package: typing.Any) -> typing.Any:
    tensor = package.InferInput("TEXT", [1, 1], "BYTES")
    tensor.set_data_from_numpy(np.array([[_TEXT]], dtype=object))
    return tensor


def _check(result: typing.Any) -> None:
    counts = result.as_numpy("WORDS")
    if int(counts.flat[0]) != _EXPECTED:
        raise AssertionError(f"{_EXPECTED} words expected, the response says {counts}")
