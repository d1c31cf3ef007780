"""What the host's side makes of calls of a library: parameters that cannot be sent, and requests of batches that fail."""

import ctypes
import logging
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from naiad.backends.c import abi
from naiad.backends.c.deferred import MAX_BEGUN
from naiad.backends.c.host import LibraryHost
from naiad.backends.c.instance import CInstance
from naiad.backends.c.memory import FreshMemory
from naiad.backends.c.outputs import BatchOutputs
from naiad.backends.c.rules import OutputRules
from naiad.errors import InferenceError

RULES = OutputRules([], batched=False)


def calls(count: int) -> list[Any]:
    request = SimpleNamespace(
        id="", parameters={}, correlation_id=0, timeout_us=0, flags=0, inputs=(), output_names=()
    )
    return [SimpleNamespace(request=request, batch_size=1, cancelled=False) for _ in range(count)]


@pytest.mark.parametrize(
    "value",
    [
        "NaN", "Infinity", "-1e999", str(1 << 64), str(-(1 << 63) - 1), '"\\ud800"', "[" * 200_000, "{}", "null", "", '"\xff"'.encode("latin-1"),
    ],
    ids=lambda value: str(value[:12]),
)  # fmt: skip
def test_a_parameter_that_cannot_be_sent_fails_its_request(value: "str | bytes") -> None:
    made = BatchOutputs(calls(2), RULES, FreshMemory(), who="the backend")
    made.parameter(0, b"p", value if isinstance(value, bytes) else value.encode())
    made.parameter(1, b"p", b'"\\ud83d\\ude00"')
    error = made.response(0).error
    assert error is not None
    assert "it gives parameter 'p' the value" in error.message
    assert (made.response(1).error, made.response(1).parameters) == (None, {"p": "\U0001f600"})


@pytest.mark.parametrize(
    ("text", "value"),
    [("1", 1), ("true", True), ("-2.5", -2.5), ('"é"', "é"), (str((1 << 64) - 1), (1 << 64) - 1)],
)
def test_parameters(text: str, value: object) -> None:
    made = BatchOutputs(calls(1), RULES, FreshMemory(), who="the backend")
    made.parameter(0, b"p", text.encode())
    assert made.response(0).parameters == {"p": value}


def test_requests_that_were_deferred_by_a_batch_that_fails_are_forgotten() -> None:
    host = LibraryHost(logging.getLogger("naiad.test"))

    def execute(_handle: object, address: int, _error: object) -> int:
        context = ctypes.c_uint64.from_address(address).value
        assert abi.DEFER(host.table.defer)(context, 0)
        return 2

    library = SimpleNamespace(naiad_execute=execute)
    instance = CInstance(library, ctypes.c_void_p(), host=host, rules=RULES, who="it", decoupled=True)  # fmt: skip
    instance.respond_through(cast("Any", None))
    for _ in range(3):
        with pytest.raises(InferenceError):
            instance.execute(calls(1))
    assert not host._deferred


class Sent:
    """Takes responses."""

    def __init__(self) -> None:
        self.all: list[tuple[Any, bool]] = []

    def send(self, _call: object, response: Any, *, final: bool, begun_ns: int) -> None:
        self.all.append((response, final))

    def wait_for_capacity(self, _call: object) -> None:
        """There is always some."""


def deferring(
    host: LibraryHost, use: Callable[[int], None], *, decoupled: bool, status: int = 0
) -> Sent:
    """What comes of a batch of one request, deferred and used so before `naiad_execute` returns."""

    def execute(_handle: object, address: int, _error: object) -> int:
        context = ctypes.c_uint64.from_address(address).value
        use(abi.DEFER(host.table.defer)(context, 0))
        return status

    sent = Sent()
    library = SimpleNamespace(naiad_execute=execute)
    instance = CInstance(library, ctypes.c_void_p(), host=host, rules=RULES, who="it", decoupled=decoupled)  # fmt: skip
    instance.respond_through(cast("Any", sent))
    if status:
        with pytest.raises(InferenceError):
            instance.execute(calls(1))
    else:
        instance.execute(calls(1))
    return sent


def held(host: LibraryHost) -> tuple[int, int, int]:
    return len(host._deferred), len(host._batches), len(host._of_responses)


@pytest.mark.parametrize("end", ["end", "last response", "failed batch", "later send"])
def test_responses_that_were_begun_and_never_sent_end_with_their_request(
    end: str, caplog: pytest.LogCaptureFixture
) -> None:
    host = LibraryHost(logging.getLogger("naiad.test"))
    begin, send = abi.RESPONSE(host.table.response), abi.SEND(host.table.send)

    def use(deferred: int) -> None:
        lost = [begin(deferred) for _ in range(5)]
        assert all(lost)
        if end == "end":
            abi.END(host.table.end)(deferred)
        elif end != "failed batch":
            send(begin(deferred), 1)
        if end == "later send":
            send(lost[0], 0)

    sent = deferring(host, use, decoupled=True, status=2 if end == "failed batch" else 0)
    assert held(host) == (0, 0, 0)
    assert "began 5 responses to a request and sent none of them" in caplog.text
    assert [final for _, final in sent.all] == ([] if end == "failed batch" else [True])
    assert ("that it has not begun, or has sent: refused" in caplog.text) is (end == "later send")


@pytest.mark.parametrize("decoupled", [False, True])
def test_a_request_for_which_responses_are_begun_without_end_fails(*, decoupled: bool) -> None:
    host = LibraryHost(logging.getLogger("naiad.test"))
    begin, send = abi.RESPONSE(host.table.response), abi.SEND(host.table.send)

    def use(deferred: int) -> None:
        first = [begin(deferred) for _ in range(MAX_BEGUN)]
        assert all(first)
        send(first[0], 2)  # dropped: there is room for one more
        assert begin(deferred)
        assert not any(begin(deferred) for _ in range(3))

    ((response, final),) = deferring(host, use, decoupled=decoupled).all
    assert final
    assert "it began 1,024 responses to the request and sent none" in response.error.message
    assert held(host) == (0, 0, 0)
