"""What a worker sends of a tensor on a GPU: its descriptor, or a copy for the host; and what it keeps. The GPUs are made up."""

import collections.abc
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

from naiad.errors import ErrorCode, InferenceError
from naiad.hosts.link import codec, kinds, layouts
from naiad.hosts.link.call_segments import LARGE
from naiad.hosts.link.exported import Exported
from naiad.hosts.link.payload import Payload
from naiad.hosts.link.segments import Segment, create
from naiad.hosts.worker.asking import AFTER_CALLS, HostOnly
from naiad.hosts.worker.gpu.exports import Exports
from naiad.hosts.worker.gpu.imports import Imports
from naiad.hosts.worker.received_tensors import ReceivedDeviceTensor, Returns
from naiad.tensors import copies, cudart
from naiad.tensors.descriptor import Descriptor, unpacked
from naiad.tensors.host_copy import HostCopy
from naiad.tensors.numbering import DEVICE
from tests.server.hosts.links import Pair, payload
from tests.support import cuda
from tests.support.cuda import device_arrays
from tests.support.waiting import wait_until

VALUES = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.fixture
def state() -> collections.abc.Iterator[cuda.State]:
    with cuda.in_this_process() as found:
        yield found
        found.fail("", 0)
        assert found.live(cuda.REGISTERED) == []


@pytest.mark.parametrize(
    ("own", "device", "wanted", "kind"),
    [("", 0, 0, Exported), ("", 1, 1, Exported), ("", 1, 0, HostCopy), ("", 1, -1, Exported), ("", 0, None, HostCopy),
     ("5", 0, 5, Exported), ("5", 0, 0, HostCopy)],
)  # fmt: skip
def test_it_stays_where_the_receiver_takes_it(
    state: cuda.State,
    monkeypatch: pytest.MonkeyPatch,
    *,
    own: str,
    device: int,
    wanted: int | None,
    kind: type,
) -> None:
    monkeypatch.setenv(DEVICE, own)
    exports = Exports()
    part = exports.part(device_arrays.to_device(VALUES, device), wanted=wanted)
    assert type(part) is kind
    assert len(exports) == (kind is Exported)
    if isinstance(part, Exported):
        assert part.placed == ("cuda", int(own or device))
        exports.release(unpacked(part.descriptor).number)
        exports.release(unpacked(part.descriptor).number)
        assert len(exports) == 0
    else:
        assert isinstance(part, HostCopy)
        assert part.tobytes() == VALUES.tobytes()


def test_a_tensor_inside_an_allocation_has_its_offset_and_keeps_the_allocation(
    state: cuda.State,
) -> None:
    before = state.live(cuda.ALLOCATED)
    exports, pool = Exports(), device_arrays.Allocation(4096)
    tensor = device_arrays.to_device(VALUES, within=pool, offset=512)
    found = unpacked(exports.part(tensor, wanted=0).descriptor)
    assert (found.offset, found.size, found.owner) == (512, 24, 0)
    del pool, tensor
    assert state.live(cuda.ALLOCATED) == [*before, 4096]
    exports.release(found.number)
    assert state.live(cuda.ALLOCATED) == before


def test_memory_without_a_handle_goes_through_the_host_from_then_on(
    state: cuda.State, caplog: pytest.LogCaptureFixture
) -> None:
    exports, tensor = Exports(), device_arrays.to_device(VALUES)
    state.fail("cudaIpcGetMemHandle", cudart.INVALID_VALUE)
    for _ in range(3):
        assert type(exports.part(tensor, wanted=0)) is HostCopy
    assert caplog.text.count("expandable_segments") == 1
    assert len(exports) == 0


def test_an_empty_tensor_and_one_on_the_host_are_sent_as_they_are(state: cuda.State) -> None:
    exports = Exports()
    part = exports.part(device_arrays.to_device(VALUES[:0]), wanted=0)
    assert type(part) is HostCopy
    assert (part.shape, part.tobytes()) == ((0, 3), b"")
    assert exports.part(VALUES, wanted=0) is VALUES


@pytest.mark.parametrize("call", ["cudaStreamSynchronize", "cuMemGetAddressRange_v2"])  # fmt: skip
def test_an_error_of_the_device_keeps_nothing(state: cuda.State, call: str) -> None:
    exports, tensor = Exports(), device_arrays.to_device(VALUES)
    state.fail(call, 700)
    with pytest.raises(cudart.CudaError, match="700"):
        exports.part(tensor, wanted=0)
    assert len(exports) == 0


def test_a_copy_to_the_host_that_fails_names_the_output(state: cuda.State) -> None:
    tensor = device_arrays.to_device(VALUES)
    state.fail("cudaStreamSynchronize", 700)
    with pytest.raises(
        InferenceError, match=r"output 'Y' is in memory of kind 'cuda'.*700"
    ) as raised:
        codec.write([((), [("Y", "FP32", tensor)])])
    assert raised.value.code is ErrorCode.UNSUPPORTED


def test_a_message_has_the_values_of_a_tensor_that_goes_to_the_host(state: cuda.State) -> None:
    header, payload = codec.write([((), [("Y", "FP32", device_arrays.to_device(VALUES))])])
    layout, _ = layouts.Reader(lambda *told: told).read(header)
    ((name, kind, shape, memory), at, size) = layout.groups[0][1][0]
    assert (name, kind, shape, memory.kind, size) == ("Y", "FP32", (2, 3), "cpu", 24)
    assert payload.joined()[at : at + size] == VALUES.tobytes()


def test_memory_that_is_copied_to_again_and_again_is_pinned_until_it_is_released(
    state: cuda.State,
) -> None:
    large = np.zeros(1 << 16, np.uint8)
    array = copies.array_of(device_arrays.to_device(large))
    descriptor, memory = create(1 << 17)
    os.close(descriptor)
    segment = Segment(memory, 1 << 17)
    for _ in range(2 * copies.PAYS - 1):
        payload = Payload()
        payload.add(HostCopy(array))
        payload.write(segment.memory, segment.written)
        assert state.live(cuda.REGISTERED) == []
    payload.write(segment.memory, segment.written)
    assert state.live(cuda.REGISTERED) == [1 << 17]
    payload.write(segment.memory, segment.written)
    del segment
    assert state.live(cuda.REGISTERED) == []


def test_pinning_pays_from_the_fourth_time_on() -> None:
    assert [copies.pays(100, copied) for copied in (0, 399, 400, 1000)] == [
        False, False, True, True,
    ]  # fmt: skip


def test_a_model_that_takes_tensors_of_the_host_only_is_tried_again_at_times() -> None:
    known = HostOnly()
    assert not known.take("m")
    known.add("m")
    assert [known.take("m") for _ in range(AFTER_CALLS)] == [True] * AFTER_CALLS
    assert not known.take("m")
    assert not known.take("other")


OWNER = """
import sys
import numpy as np
from tests.support.cuda import device_arrays
from naiad.hosts.worker.gpu.exports import Exports
exports, pool = Exports(), device_arrays.Allocation(4096)
for number in range(3):
    tensor = device_arrays.to_device(np.full(4, number, np.int32), within=pool, offset=64 * number)
    print(exports.part(tensor, wanted=0).descriptor.hex(), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def lent(state: cuda.State) -> collections.abc.Iterator[list[Descriptor]]:
    """Three tensors of one allocation of another process, which ends with the test."""
    root = pathlib.Path(__file__).parents[4]
    environ = {**os.environ, **state.environment, "PYTHONPATH": f"{root}/server:{root}"}
    with subprocess.Popen(
        [sys.executable, "-c", OWNER], env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as owner:
        assert owner.stdout is not None
        yield [unpacked(bytes.fromhex(owner.stdout.readline().decode()))._replace(owner=9, number=n) for n in (1, 2, 3)]  # fmt: skip
        owner.kill()


def test_tensors_of_one_allocation_open_it_once_and_are_returned_when_they_are_not_used(
    state: cuda.State, lent: list[Descriptor]
) -> None:
    imports, said = Imports(), list[bytes]()
    imports.returns_to(said.append)
    opened, waits = state.counts.opens, state.counts.synchronizes
    tensors = [imports.open(each, (4,), "INT32") for each in lent]
    assert [copies.to_host(each)[0] for each in tensors] == [0, 1, 2]
    assert state.counts.opens - opened == 1
    capsule = tensors[0].__dlpack__()
    tensors.clear()
    wait_until(lambda: len(b"".join(said)) == 16)
    del capsule
    wait_until(lambda: len(b"".join(said)) == 24)
    assert state.counts.synchronizes > waits, "what reads them on the device has ended"
    assert state.live(cuda.OPENED) == [4096]
    imports.owner_ended(9)
    wait_until(lambda: state.live(cuda.OPENED) == [])
    assert len(imports) == 0


@pytest.mark.parametrize("call", ["cudaIpcOpenMemHandle", "cudaGetDeviceCount"])
def test_a_tensor_that_cannot_be_opened_says_why_and_is_returned(
    state: cuda.State, lent: list[Descriptor], monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    said: list[bytes] = []
    monkeypatch.setattr(Returns, "send", said.append, raising=False)
    tensor = ReceivedDeviceTensor("X", "INT32", (4,), lent[1])
    state.fail(call, 400)
    for _ in range(2):
        with pytest.raises(InferenceError, match=f"cannot be opened: {call}: CUDA error 400"):
            _ = tensor.array
    state.fail("", 0)
    del tensor
    wait_until(lambda: b"".join(said) == (2).to_bytes(8, "little"))


def test_a_device_that_this_process_does_not_see_is_named(lent: list[Descriptor]) -> None:
    with pytest.raises(InferenceError, match="does not see the device with the UUID 7878"):
        Imports().open(lent[0]._replace(uuid=b"x" * 16), (4,), "INT32")


@pytest.mark.parametrize(("size", "pinned"), [(1 << 20, True), (LARGE + 1, False)])
def test_only_segments_that_keep_their_pages_are_pinned(
    state: cuda.State, pair: Pair, *, size: int, pinned: bool
) -> None:
    """Pages of large ones are taken out of the file: a device would write to those that it had."""
    ours, theirs = pair
    values = np.arange(size, dtype=np.uint8)
    array = copies.array_of(device_arrays.to_device(values, 0))
    for _ in range(10):
        ours.send(kinds.OUTCOME, b"", payload(HostCopy(array))[0])
        theirs.receive()
        assert (theirs.base[:size] == values).all()
        theirs.send(kinds.BATCH, b"")
        ours.receive()
    assert bool(state.live(cuda.REGISTERED)) == pinned
    ours.close()
