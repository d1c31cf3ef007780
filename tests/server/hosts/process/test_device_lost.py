"""A worker that cannot use its GPU any more: its request gets the framework's words, it ends itself, and another one takes its place.

Exceptions of a framework's shape stand in for the framework, a module `torch` in the model's folder for torch.
"""

import asyncio
import logging
import pathlib

import pytest

from naiad.errors import ErrorCode
from naiad.metrics.statistics import RestartReason
from tests.server.hosts.process.several import LOSES, WAITS
from tests.server.hosts.process.test_instances import begin, let_go, start
from tests.server.hosts.process.workers import (
    GIVE_UP_S,
    Hosted,
    Hosts,
    answers,
    ask,
    lines,
    told,
)
from tests.support.waiting import until

pytestmark = pytest.mark.slow

TORCH = """
class cuda:
    broken = False
    emptied = 0
    is_initialized = staticmethod(lambda: True)

    @classmethod
    def synchronize(cls):
        if cls.broken:
            raise RuntimeError("CUDA error: device-side assert triggered")

    @classmethod
    def empty_cache(cls):
        cls.emptied += 1

class AcceleratorError(RuntimeError):
    def __init__(self, text, error_code):
        super().__init__(text)
        self.error_code = error_code
"""
"""What this server asks of torch."""

TEXT = "CUDA error: device-side assert triggered"

RAISES = f"""
def execute(self, requests):
    import torch
    what = requests[0].inputs()[0].as_numpy()[0, 0]
    if what < 0:
        raise torch.AcceleratorError("{TEXT}", -int(what))
    return [response(torch.cuda.emptied, os.getpid())]
"""

RESPONDS = f"""
def execute(self, requests):
    import torch
    what = requests[0].inputs()[0].as_numpy()[0, 0]
    if what < 0:
        torch.cuda.broken = what == -1
        return [pb_utils.InferenceResponse(error=pb_utils.TritonError("{TEXT}"))]
    return [response(0, os.getpid())]
"""

SENDS = f"""
def execute(self, requests):
    import torch
    for request in requests:
        sender = request.get_response_sender()
        if request.inputs()[0].as_numpy()[0, 0] < 0:
            torch.cuda.broken = True
            sender.send(pb_utils.InferenceResponse(error=pb_utils.TritonError("{TEXT}")), FINAL)
        else:
            sender.send(response(0, 0), FINAL)
"""

RAISES_LATER = f"""
async def execute(self, requests):
    import torch
    raise torch.AcceleratorError("{TEXT}", 710)
"""


def with_torch(folder: pathlib.Path) -> None:
    """The module `torch`, which a model of this folder imports."""
    (folder / "1").mkdir(exist_ok=True)
    (folder / "1" / "torch.py").write_text(TORCH)


async def restarted(hosted: Hosted) -> None:
    """Wait until another worker serves in place of one that ended."""
    await until(lambda: hosted.usable == [False, True])
    assert hosted.restarts == [RestartReason.DIED]


async def test_after_an_error_that_cuda_does_not_survive_the_worker_ends_itself_and_the_next_one_serves(
    hosts: Hosts, tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "naiad")
    with_torch(tmp_path)
    hosted = await hosts.start(RAISES)
    first = hosted.worker.pid
    usable_then: list[list[bool]] = []
    came_back = asyncio.get_running_loop().create_future()

    def on_outcome(outcome: object) -> None:
        usable_then.append(list(hosted.usable))
        came_back.set_result(outcome)

    hosted.host.submit([ask((-710, 0))], on_outcome)
    outcome = await asyncio.wait_for(came_back, GIVE_UP_S)
    assert outcome.error.code is ErrorCode.INTERNAL
    assert TEXT in outcome.error.message, "the framework's own words"
    assert usable_then == [[False]], "no batch follows the one that lost the device"
    await restarted(hosted)
    assert hosted.worker.pid not in {0, first}
    answers(await hosted.run())
    how = "ended itself, because after CUDA error 710 (cudaErrorAssert) a process cannot use its GPU any more"
    assert f"worker process {first} of {hosted.worker._identity} {how}: it is restarted" in lines(
        caplog, "naiad.hosts"
    )


@pytest.mark.parametrize("code", [2, 712])
async def test_other_errors_of_cuda_fail_their_request_only_and_memory_of_torch_is_released_when_none_is_left(
    hosts: Hosts, tmp_path: pathlib.Path, code: int
) -> None:
    with_torch(tmp_path)
    hosted = await hosts.start(RAISES)
    first = hosted.worker.pid
    assert (await hosted.run(ask((-code, 0)))).error is not None
    (answer,) = answers(await hosted.run(ask((1, 0))))
    assert answer["OUT"] == [[1 if code == 2 else 0, first]]
    assert hosted.restarts == []


async def test_an_error_in_a_response_counts_if_torch_says_that_its_device_does_not_work(
    hosts: Hosts, tmp_path: pathlib.Path
) -> None:
    with_torch(tmp_path)
    hosted = await hosts.start(RESPONDS)
    first = hosted.worker.pid
    for what in (-2, 1, -1):  # text alone, which a client may have sent; then with a broken device
        outcome = await hosted.run(ask((what, 0)))
        assert outcome.execution is not None
        (response,) = outcome.execution.responses
        assert response is not None
        if what < 0:
            assert response.error is not None
            assert response.error.message == TEXT
        else:
            assert hosted.worker.pid == first
    await restarted(hosted)


async def test_a_deferred_response_counts_as_well(hosts: Hosts, tmp_path: pathlib.Path) -> None:
    with_torch(tmp_path)
    hosted = await hosts.start(SENDS, decoupled=True)
    await asyncio.wait_for(hosted.submit(ask((-1, 0))), GIVE_UP_S)
    await restarted(hosted)
    assert told(hosted) == ["INTERNAL!"]
    assert hosted.answers[0].response.error is not None
    assert hosted.answers[0].response.error.message == TEXT


async def test_a_coroutine_that_raises_after_its_batch_came_back_counts_as_well(
    hosts: Hosts, tmp_path: pathlib.Path
) -> None:
    with_torch(tmp_path)
    hosted = await hosts.start(RAISES_LATER, decoupled=True)
    await asyncio.wait_for(hosted.submit(ask()), GIVE_UP_S)
    await restarted(hosted)
    assert told(hosted) == ["INTERNAL!"]


async def test_the_batches_of_all_instances_of_the_process_fail_with_unavailable(
    hosts: Hosts, tmp_path: pathlib.Path
) -> None:
    """A backend that is not Python's: its exception is what counts."""
    hosted = await start(hosts, tmp_path, 2)
    other = hosted.submit(ask((WAITS, 0)), to=1)
    await until((tmp_path / "begun m_1").exists)
    lost = await asyncio.wait_for(hosted.submit(ask((LOSES, 0)), to=0), GIVE_UP_S)
    assert lost.error is not None
    assert "CUDA failure 700" in lost.error.message
    failed = await asyncio.wait_for(other, GIVE_UP_S)
    assert failed.error is not None
    assert failed.error.code is ErrorCode.UNAVAILABLE
    assert "CUDA error 700 (cudaErrorIllegalAddress)" in failed.error.message
    let_go(tmp_path, "m_0", "m_1")
    await until(lambda: hosted.usable == [False, False, True, True])
    assert hosted.restarts == [RestartReason.DIED]
    for out in await begin(hosted, tmp_path):
        answers(await asyncio.wait_for(out, GIVE_UP_S))
