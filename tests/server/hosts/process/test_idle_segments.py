"""What a large batch and its responses have left in the segments of a link is given back once the instance has nothing to do."""

import pathlib

import numpy as np
import pytest

from naiad.core import datatypes
from naiad.hosts.link.call_segments import LARGE
from naiad.hosts.process import idle_segments
from tests.server.backends.configs import inference, spec, tensor
from tests.server.hosts.process.workers import SAME, Hosts
from tests.support.waiting import until

SIZE = 2 * LARGE


def shared_bytes() -> int:
    """Bytes of shared memory that this process has mapped and used."""
    status = pathlib.Path("/proc/self/status").read_text()
    return int(status.partition("RssShmem:")[2].split()[0]) << 10


async def test_the_memory_of_a_large_batch_is_given_back_and_can_be_used_again(
    hosts: Hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(idle_segments, "IDLE_S", 0.01)
    hosted = await hosts.start(SAME, outputs=[spec("OUT", datatypes.FP32, (-1,))])
    before = shared_bytes()
    for turn in range(3):
        large = inference(tensor("IN", np.full((1, SIZE // 4), turn, np.float32)))
        outcome = await hosted.run(large)
        assert outcome.execution is not None, outcome.error
        (response,) = outcome.execution.responses
        assert response is not None
        (output,) = response.outputs
        # Nothing of the batch is left, all of the response that is still sent.
        await until(lambda: shared_bytes() < before + SIZE + LARGE)
        assert (output.array == turn).all()
        assert shared_bytes() >= before + SIZE
        del outcome, response, output
        await hosted.run(inference(tensor("IN", np.ones((1, 4), np.float32))))
        await until(lambda: shared_bytes() < before + LARGE)
