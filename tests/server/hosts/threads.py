"""Thread hosts for tests, and batches for them."""

import asyncio
import collections.abc

from naiad.core.inference import Inference
from naiad.hosts.host import BatchOutcome
from naiad.hosts.thread import ThreadHost
from tests.support.hosts import ScriptedInstance
from tests.support.inferences import make_inference

Hosted = collections.abc.Callable[[ScriptedInstance], ThreadHost]
GIVE_UP_S = 10


async def run(host: ThreadHost, *batch: Inference) -> BatchOutcome:
    """Give a host a batch, and wait for its outcome."""
    came_back = asyncio.get_running_loop().create_future()
    host.submit(list(batch) or [make_inference()], came_back.set_result)
    outcome = await asyncio.wait_for(came_back, GIVE_UP_S)
    assert isinstance(outcome, BatchOutcome)
    return outcome
