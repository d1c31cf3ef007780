"""Threads of the server when CUDA cannot be used any more in its process: who is not ready, and what clients get."""

import asyncio
import collections.abc
import logging

import pytest

from naiad.core.clock import SystemClock
from naiad.core.inference import Inference
from naiad.core.response import InferResponse
from naiad.errors import ErrorCode, internal
from naiad.hosts.thread_host import DeviceState, ThreadHost
from tests.server.hosts.threads import local, run
from tests.support.hosts import ScriptedInstance, answer_all
from tests.support.inferences import make_inference, make_response

Fail = type("Fail", (Exception,), {"__module__": "onnxruntime.capi.onnxruntime_pybind11_state"})


def loses(batch: collections.abc.Sequence[Inference]) -> list[InferResponse]:
    raise internal("the run failed") from Fail("CUDA failure 710: device-side assert triggered")


def fails(batch: collections.abc.Sequence[Inference]) -> list[InferResponse]:
    raise Fail("CUDA failure 2: out of memory")


def answers_with_an_error(batch: collections.abc.Sequence[Inference]) -> list[InferResponse]:
    error = internal("the run failed")
    error.__cause__ = Fail("CUDA failure 710: device-side assert triggered")
    return [make_response(inference, error=error) for inference in batch]


class Threads:
    """Hosts on GPUs of one server, and one without a GPU."""

    def __init__(self) -> None:
        self.state = DeviceState()
        self.loses, self.other = ScriptedInstance(loses), ScriptedInstance()
        self.cpu = ScriptedInstance(answer_all)
        self.hosts = [
            self.host(self.loses, self.state),
            self.host(self.other, self.state),
            self.host(self.cpu, None),
        ]

    def host(self, instance: ScriptedInstance, state: DeviceState | None) -> ThreadHost:
        loop = asyncio.get_running_loop()
        return ThreadHost("m_0", local(instance), clock=SystemClock(), loop=loop, state=state)


@pytest.fixture
async def threads() -> collections.abc.AsyncIterator[Threads]:
    made = Threads()
    yield made
    for host in made.hosts:
        await host.close()


async def test_the_request_gets_the_frameworks_words_and_all_instances_on_gpus_are_not_ready_any_more(
    threads: Threads, caplog: pytest.LogCaptureFixture
) -> None:
    loser, other, cpu = threads.hosts
    assert await loser.ready()
    outcome = await run(loser)
    assert outcome.error is not None
    assert (outcome.error.code, outcome.error.message) == (ErrorCode.INTERNAL, "the run failed")
    for host, ready in ((loser, False), (other, False), (cpu, True)):
        assert await host.ready() is ready
    (logged,) = [record.message for record in caplog.records if record.levelno == logging.ERROR]
    assert logged == (
        "instance 'm_0' and all others on a GPU in threads of this server are not ready any more: after CUDA error 710 (cudaErrorAssert) a "
        "process cannot use its GPU any more. Restart the server"
    )


async def test_later_requests_are_refused_and_the_refusal_says_why_and_what_to_do(
    threads: Threads,
) -> None:
    loser, other, cpu = threads.hosts
    await run(loser)
    refused = (await run(other)).error
    assert refused is not None
    assert refused.code is ErrorCode.UNAVAILABLE
    assert "after CUDA error 710 (cudaErrorAssert) a process cannot use" in refused.message
    assert "restart this one" in refused.message
    assert threads.other.executed == []
    assert (await run(cpu)).error is None


async def test_an_error_in_a_response_counts(threads: Threads) -> None:
    threads.loses.script = answers_with_an_error
    assert (await run(threads.hosts[0], make_inference())).error is None
    assert not await threads.hosts[1].ready()


async def test_any_other_error_of_the_device_changes_nothing(threads: Threads) -> None:
    threads.loses.script = fails
    assert (await run(threads.hosts[0])).error is not None
    assert await threads.hosts[0].ready()
    threads.loses.script = answer_all
    assert (await run(threads.hosts[0])).error is None


async def test_one_without_a_gpu_of_the_config_loses_only_itself(threads: Threads) -> None:
    threads.cpu.script = loses
    await run(threads.hosts[2])
    assert [await host.ready() for host in threads.hosts] == [True, True, False]
