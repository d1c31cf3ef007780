"""Two places decide which fields of a request a message says, `alike` and `packing`: both write the same bytes, whatever the requests of a batch have."""

from typing import Any

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st
from typing_extensions import override

from naiad.core.device_tensor import OnDevice
from naiad.core.inference import Inference, RecordsInference
from naiad.core.regions import Place
from naiad.core.request import InferRequest, RequestedOutput
from naiad.core.response import InferResponse
from naiad.core.tensor import Tensor, packed_strings
from naiad.hosts import packing
from naiad.hosts.link.link import Link
from naiad.hosts.packing import pack
from naiad.hosts.worker.requests import RequestReader
from tests.server.backends.configs import ignore, tensor
from tests.server.hosts.links import Pair

F = np.float32
OUT = RequestedOutput("OUT")


class Traced(RecordsInference):
    """A trace whose model may hand on so much of it."""

    def __init__(self, context: str) -> None:
        self.told = context

    @property
    @override
    def context(self) -> str:
        return self.told

    @override
    def begins(self, model: Any, inference: Inference) -> None:
        raise NotImplementedError

    @override
    def responds(self, inference: Inference, response: InferResponse) -> None:
        raise NotImplementedError

    @override
    def child(self) -> RecordsInference:
        raise NotImplementedError

    @override
    def answers_begin(self) -> None:
        raise NotImplementedError

    @override
    def answers_end(self) -> None:
        raise NotImplementedError


def usual() -> Tensor:
    return tensor("IN", np.full((1, 3), 7, F))


DIFFERENCES: dict[str, dict[str, Any]] = {
    "id": {"id": "r"},
    "parameters": {"parameters": {"n": 1, "weight": 0.5, "name": "ü", "last": True}},
    "a number that JSON does not have": {"parameters": {"n": float("nan")}},
    "correlation id": {"correlation_id": 3},
    "correlation id as text": {"correlation_id": "s"},
    "flags": {"flags": 2},
    "timeout": {"timeout_us": 50},
    "cancelled": {"cancelled": True},
    "trace": {"traced": Traced('{"traceparent": "00"}')},
    "trace without context": {"traced": Traced("")},
    "called": {"called": True},
    "priority": {"priority": 2},
    "rows": {"rows": 2},
    "outputs": {"requested_outputs": [OUT]},
    "two outputs": {"requested_outputs": [OUT, RequestedOutput("MORE", 2)]},
    "place of an output": {"requested_outputs": [RequestedOutput("OUT", 0, Place("r", 0, 8))]},
    "outputs on a device": {"on_device": OnDevice(0, frozenset({"OUT"}))},
    "any outputs on a device": {"on_device": OnDevice(-1)},
    "shape": {"inputs": [tensor("IN", np.ones((1, 4), F))]},
    "name": {"inputs": [tensor("OTHER", np.ones((1, 3), F))]},
    "datatype": {"inputs": [tensor("IN", np.ones((1, 3), np.int32))]},
    "BYTES": {"inputs": [tensor("IN", np.array([[b"a", b"", b"ccc"]], object))]},
    "packed strings": {
        "inputs": [packed_strings("IN", (1, 1), np.frombuffer(b"\1\0\0\0a", np.uint8))]
    },
    "numbers apart from each other": {"inputs": [tensor("IN", np.ones((1, 6), F)[:, ::2])]},
    "no numbers": {"inputs": [tensor("IN", np.ones((1, 0), F))]},
    "two inputs": {"inputs": [usual(), tensor("MORE", np.ones((1, 1), F))]},
    "no inputs": {"inputs": []},
}
"""What a request of a batch may have that the others do not have."""


def made(*, rows: int = 1, cancelled: bool = False, traced: Any = None, called: bool = False, **fields: Any) -> Inference:  # fmt: skip
    request = InferRequest(
        "m",
        1,
        fields.pop("id", ""),
        fields.pop("inputs", None) or ([] if "inputs" in fields else [usual()]),
        fields.pop("requested_outputs", []),
        fields.pop("parameters", {}),
        **{name: value for name, value in fields.items() if name != "inputs"},
    )
    return Inference(
        request, ignore, batch_size=rows, received_ns=0, cancelled=cancelled, traced=traced, called=called
    )  # fmt: skip


def both(batch: list[Inference], placing: Link | None) -> tuple[tuple[bytes, bytes], tuple[bytes, bytes]]:  # fmt: skip
    """The header and tensors of a batch as they are sent, and as the way for every batch writes them."""
    header, payload = pack(batch, placing=placing)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(packing, "pack_alike", lambda *_, **__: None)
        general, of_all = pack(batch, placing=placing)
    return (header, payload.joined()), (general, of_all.joined())


def test_every_field_of_a_request_and_of_an_inference_is_looked_at() -> None:
    """A new field belongs into the table above, and into `alike` and `packing` if a worker has to know it."""
    looked_at = {name for each in DIFFERENCES.values() for name in each} | {"model_name", "model_version", "in_regions"}  # fmt: skip
    looked_at |= {"request", "on_response", "batch_size", "received_ns", "queued_ns", "priority_level", "deadline_ns", "completed"}  # fmt: skip
    looked_at |= {"flow", "execution", "on_cancel", "answered_ns"}
    fields = {*InferRequest.__struct_fields__, *Inference.__struct_fields__}
    assert fields <= looked_at, fields - looked_at


@pytest.mark.parametrize("places", [False, True])
@pytest.mark.parametrize("at", [0, 1, 2])
@pytest.mark.parametrize("difference", DIFFERENCES)
def test_one_request_that_differs_is_written_alike_both_ways(
    difference: str, at: int, *, places: bool, pair: Pair
) -> None:
    batch = [made(**(DIFFERENCES[difference] if each == at else {})) for each in range(3)]
    shorter, general = both(batch, pair[0] if places else None)
    assert shorter == general


@hypothesis.settings(suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture])
@hypothesis.given(
    of_all=st.sets(st.sampled_from(sorted(DIFFERENCES)), max_size=2),
    of_each=st.lists(st.sets(st.sampled_from(sorted(DIFFERENCES)), max_size=2), min_size=1, max_size=12),
    places=st.booleans(),
)  # fmt: skip
def test_any_batch_is_written_alike_both_ways(
    of_all: set[str], of_each: list[set[str]], *, places: bool, pair: Pair
) -> None:
    batch = []
    for own in of_each:
        fields: dict[str, Any] = {}
        for name in sorted(of_all | own):
            fields |= DIFFERENCES[name]
        batch.append(made(**fields))
    shorter, general = both(batch, pair[0] if places else None)
    assert shorter == general


@pytest.mark.parametrize("difference", ["id", "parameters", "correlation id", "flags", "timeout", "cancelled"])  # fmt: skip
def test_what_a_request_alone_has_arrives_with_it(difference: str) -> None:
    fields = DIFFERENCES[difference]
    header, payload = pack([made(), made(**fields)])
    first, second = RequestReader().read(bytearray(payload.joined()), header, 0)
    ((name, value),) = fields.items()
    assert getattr(second, name) == value
    assert getattr(first, name) != value
