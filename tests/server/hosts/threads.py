"""Thread hosts for tests, and batches for them."""

import asyncio
import collections.abc

from naiad.core import datatypes
from naiad.core.inference import Inference
from naiad.hosts.host import BatchOutcome
from naiad.hosts.local_instance import LocalInstance
from naiad.hosts.thread_host import ThreadHost
from tests.server.backends.configs import model_config, spec
from tests.support.hosts import ScriptedInstance
from tests.support.inferences import make_inference

Hosted = collections.abc.Callable[[ScriptedInstance], ThreadHost]
GIVE_UP_S = 60
CONFIG = model_config(
    inputs=[spec("x", datatypes.FP32, (-1,))], outputs=[spec("y", datatypes.FP32, (-1,))]
)


def local(instance: ScriptedInstance) -> LocalInstance:
    """An instance as a host takes it."""
    return LocalInstance(instance, CONFIG, 1)


async def run(host: ThreadHost, *batch: Inference) -> BatchOutcome:
    """Run a batch in a host, and wait for its outcome."""
    came_back = asyncio.get_running_loop().create_future()
    host.submit(list(batch) or [make_inference()], came_back.set_result)
    outcome = await asyncio.wait_for(came_back, GIVE_UP_S)
    assert isinstance(outcome, BatchOutcome)
    return outcome
