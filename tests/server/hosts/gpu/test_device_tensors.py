"""Who keeps a tensor on a GPU for whom, as the server counts it: every way to its end releases it exactly once."""

import asyncio
import gc
import threading

from naiad.core import datatypes
from naiad.core.device_tensor import DeviceTensor
from naiad.hosts.device_tensors import DeviceTensors
from naiad.hosts.link.kinds import OWNER_ENDED, RELEASE
from naiad.hosts.worker.gpu.imports import NUMBERS
from naiad.tensors.descriptor import Descriptor, unpacked
from naiad.tensors.memory import Memory

GPU = Memory("cuda", 0)


class Worker:
    """A worker process: the notifications that it gets."""

    def __init__(self) -> None:
        self.told: list[tuple[int, int]] = []
        self.tensors = DeviceTensors(self.notify, loop=asyncio.get_running_loop())

    def notify(self, kind: int, number: int = 0) -> None:
        self.told.append((kind, number))

    def sends(self, number: int) -> DeviceTensor:
        packed = Descriptor(b"h" * 64, b"u" * 16, 512, 8, 0, number).packed()
        return self.tensors.received("Y", datatypes.FP32, (2,), GPU, packed)


def returned(*numbers: int) -> bytes:
    return b"".join(map(NUMBERS.pack, numbers))


async def test_a_tensor_is_released_when_its_receivers_have_returned_it() -> None:
    owner, one, two = Worker(), Worker(), Worker()
    tensor = owner.sends(7)
    first, second = (unpacked(each.tensors.lend(tensor)) for each in (one, two))
    assert (first.offset, first.size, first.number) == (512, 8, 1)
    assert first.owner == second.owner != 0
    renamed = tensor.named("X", (1, 2))
    del tensor
    one.tensors.returned(returned(first.number))
    assert owner.told == []
    two.tensors.returned(returned(second.number))
    assert owner.told == []
    del renamed
    assert owner.told == [(RELEASE, 7)]
    one.tensors.returned(returned(first.number, 99))
    assert owner.told == [(RELEASE, 7)]


async def test_a_receiver_that_ends_returns_all() -> None:
    owner, receiver = Worker(), Worker()
    for number in range(100):
        receiver.tensors.lend(owner.sends(number))
    assert len(receiver.tensors) == 100
    receiver.tensors.end()
    assert sorted(owner.told) == [(RELEASE, number) for number in range(100)]


async def test_an_owner_that_ends_has_the_others_close_its_memory_and_hears_nothing_more() -> None:
    owner, receiver, other = Worker(), Worker(), Worker()
    lent = receiver.tensors.lend(owner.sends(1))
    owner.tensors.end()
    assert receiver.told == [(OWNER_ENDED, unpacked(lent).owner)]
    assert other.told == []
    receiver.tensors.returned(returned(unpacked(lent).number))
    assert owner.told == []


async def test_what_could_not_be_sent_is_not_lent() -> None:
    owner, receiver = Worker(), Worker()
    receiver.tensors.lend(owner.sends(1))
    mark = receiver.tensors.mark
    receiver.tensors.lend(owner.sends(2))
    receiver.tensors.not_sent(mark, receiver.tensors.mark)
    assert owner.told == [(RELEASE, 2)]


async def test_the_last_reference_may_go_in_another_thread() -> None:
    owner = Worker()
    held = [owner.sends(3)]
    thread = threading.Thread(target=held.clear)
    thread.start()
    thread.join()
    gc.collect()
    assert owner.told == []
    await asyncio.sleep(0)
    assert owner.told == [(RELEASE, 3)]
