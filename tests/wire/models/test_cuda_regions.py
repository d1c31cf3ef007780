"""Tensors in clients' memory on GPUs, with Triton's own clients, over both protocols. The GPUs are made up."""

import collections.abc

import numpy as np
import pytest

from tests.reference.process import ServerProcess
from tests.support import cuda
from tests.wire.models.cuda_regions import host_models, region
from tests.wire.models.device_models import serving
from tests.wire.protocol.test_clients import CLIENTS, client
from tests.wire.protocol.test_shared_memory import in_region, to_region

X = np.arange(8, dtype=np.float32)


@pytest.fixture(scope="module")
def sharing(
    tmp_path_factory: pytest.TempPathFactory,
) -> collections.abc.Iterator[ServerProcess]:
    """A server with two GPUs whose clients may share memory with it; it has what this process has of them."""
    folder = tmp_path_factory.mktemp("gpus")
    host_models(folder / "models")
    options = ("--allow-client-shm=true", "--model-control-mode=explicit", "--load-model=*")
    with serving(folder, *options, state=cuda.state_of_this_process()) as (running, _):
        yield running


@pytest.mark.parametrize("kind", CLIENTS)
def test_inputs_and_outputs_lie_in_one_region(kind: str, sharing: ServerProcess) -> None:
    with client(kind, sharing) as (asked, module), region(asked, 128) as (name, memory):
        memory.put(X, 32)
        for _ in range(2):
            given = in_region(module, "X", name, X, 32)
            asked.infer("double", [given], outputs=[to_region(module, "Y", name, 32, 64)])
            assert (memory.get(np.float32, [8], 64) == 2 * X).all()
            memory.put(np.zeros(8, np.float32), 64)
