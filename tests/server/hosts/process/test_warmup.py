"""Warmup samples in worker processes: before the model is ready, in every worker and in instances that come later."""

import asyncio
import errno
import os
import pathlib
import signal
from typing import Any

import pytest
from typing_extensions import override

from naiad.core import datatypes
from naiad.core.clock import SystemClock
from naiad.core.request import InferRequest
from naiad.core.tensor import Tensor
from naiad.errors import ErrorCode, InferenceError
from naiad.hosts.warmup import Warmup, WarmupRequest
from naiad.hosts.worker.warmup import MOST_BATCHES
from naiad.metrics.statistics import ModelStatistics
from tests.server.backends.configs import tensor
from tests.server.hosts.process.test_instances import notes, start
from tests.server.hosts.process.test_resize import more
from tests.server.hosts.process.workers import Hosts, answers, ask
from tests.support.waiting import until

pytestmark = pytest.mark.slow

NOTES = """
    def initialize(self, args):
        self.folder = args["model_repository"]

    def execute(self, requests):
        with open(self.folder + "/batches", "a") as file:
            for request in requests:
                file.write(f"{len(requests)} {[each.as_numpy().tolist() for each in request.inputs()]}\\n")
        if requests[0].inputs()[0].as_numpy()[0, 0] < 0:
            raise ValueError("negative")
        return same(requests)
"""

DECOUPLED = """
    def execute(self, requests):
        for request in requests:
            sender = request.get_response_sender()
            def send(sender=sender, request=request):
                failed = request.inputs()[0].as_numpy()[0, 0] < 0
                if failed:
                    sender.send(pb_utils.InferenceResponse(error=pb_utils.TritonError("negative")))
                else:
                    sender.send(response(1, 2))
                time.sleep(0.05)
                sender.send(flags=FINAL)
            threading.Thread(target=send).start()
"""


def sample(*inputs: Tensor, name: str = "s", batch_size: int = 1, count: int = 1) -> WarmupRequest:
    return WarmupRequest(name, batch_size, count, InferRequest("m", -1, "", list(inputs), [], {}))


def numbers(*row: float) -> Tensor:
    return tensor("IN", [row], datatypes.FP32)


class Recorded(Warmup):
    """A warmup, and how often it has advanced."""

    def __init__(self, *samples: WarmupRequest, batched: bool = True) -> None:
        self.statistics = ModelStatistics()
        super().__init__(samples, batched=batched, statistics=self.statistics, clock=SystemClock())
        self.begun = 0
        self.advance = self._count

    def _count(self) -> None:
        self.begun += 1


def batches(folder: pathlib.Path) -> list[str]:
    return (folder / "batches").read_text().splitlines()


async def test_samples_are_executed_in_their_order_and_counted_before_the_load_ends(
    hosts: Hosts, tmp_path: pathlib.Path
) -> None:
    warmup = Recorded(
        sample(numbers(1, 2), count=2), sample(numbers(3, 4), name="large", batch_size=3)
    )
    hosted = await hosts.start(NOTES, warmup=warmup)
    assert batches(tmp_path) == ["1 [[[1.0, 2.0]]]"] * 2 + ["3 [[[3.0, 4.0]]]"] * 3
    assert warmup.begun == 3
    counted = warmup.statistics
    assert (counted.inference_count, counted.execution_count, counted.success_count) == (5, 3, 5)
    assert {size: each.count for size, each in counted.batches.items()} == {1: 2, 3: 1}
    assert counted.success_ns >= counted.compute_infer_ns > 0
    assert answers(await hosted.run()) == [{"OUT": [[1, 2]]}]


async def test_many_iterations_are_counted_whole(hosts: Hosts) -> None:
    count = MOST_BATCHES + 200
    warmup = Recorded(sample(numbers(1, 2), count=count))
    await hosts.start("def execute(self, requests): return same(requests)", warmup=warmup)
    assert warmup.begun == count
    counted = warmup.statistics
    assert (counted.inference_count, counted.execution_count) == (count, count)
    assert {size: each.count for size, each in counted.batches.items()} == {1: count}


async def test_strings_and_large_tensors_arrive_as_they_are(
    hosts: Hosts, tmp_path: pathlib.Path
) -> None:
    large = tensor("IN", [[7.0] * 50_000], datatypes.FP32)
    words: Any = [[b"a", b"\xff" * 3]]
    body = NOTES.replace("as_numpy().tolist()", "as_numpy().ravel()[-1]")
    warmup = Recorded(sample(large, tensor("S", words, datatypes.BYTES)))
    await hosts.start(body, warmup=warmup)
    (line,) = batches(tmp_path)
    assert "7.0" in line
    assert r"b'\xff\xff\xff'" in line


async def test_without_a_batch_dimension_each_request_is_a_batch(
    hosts: Hosts, tmp_path: pathlib.Path
) -> None:
    warmup = Recorded(sample(numbers(1, 2), batch_size=3), batched=False)
    await hosts.start(NOTES, warmup=warmup)
    assert batches(tmp_path) == ["1 [[[1.0, 2.0]]]"] * 3
    assert warmup.begun == 1


@pytest.mark.parametrize(
    ("body", "more_config"),
    [(NOTES, {}), (DECOUPLED, {"decoupled": True})],
    ids=["plain", "deferred"],
)
async def test_a_sample_that_fails_fails_the_load_by_its_name(
    hosts: Hosts, body: str, more_config: dict[str, Any]
) -> None:
    warmup = Recorded(sample(numbers(1, 2)), sample(numbers(-1, 0), name="bad", batch_size=2))
    with pytest.raises(InferenceError, match="negative") as raised:
        await hosts.start(body, warmup=warmup, **more_config)
    assert raised.value.code is ErrorCode.INVALID_ARG
    assert raised.value.message.startswith("failed to run warmup sample 'bad': ")
    assert raised.value.message.count("negative") == 1


async def test_deferred_responses_are_awaited_and_later_ones_go_to_clients(hosts: Hosts) -> None:
    warmup = Recorded(sample(numbers(1, 2), count=2))
    hosted = await hosts.start(DECOUPLED, warmup=warmup, decoupled=True)
    assert warmup.statistics.compute_infer_ns >= 100_000_000
    await hosted.run(ask())
    await until(lambda: len(hosted.answers) == 2)
    assert [each.response.final for each in hosted.answers] == [False, True]


async def test_a_worker_that_replaces_another_is_warm_before_it_serves(
    hosts: Hosts, tmp_path: pathlib.Path
) -> None:
    hosted = await hosts.start(NOTES, warmup=Recorded(sample(numbers(1, 2))))
    (tmp_path / "batches").unlink()
    os.kill(hosted.worker.pid, signal.SIGKILL)
    await until(lambda: hosted.usable == [False, True])
    assert batches(tmp_path) == ["1 [[[1.0, 2.0]]]"]
    assert answers(await hosted.run()) == [{"OUT": [[1, 2]]}]


async def test_all_instances_of_a_process_are_warm_and_those_that_join_it(
    hosts: Hosts, tmp_path: pathlib.Path
) -> None:
    warmup = Recorded(sample(numbers(6, 0), count=2))
    hosted = await start(hosts, tmp_path, 2, warmup=warmup)
    assert warmup.statistics.execution_count == 4
    await hosted.add(more(tmp_path, "m_2", "m_3"))
    assert warmup.statistics.execution_count == 8
    assert warmup.begun == 8
    assert notes(tmp_path) == ["loaded"]
    for place in range(4):
        answers(await asyncio.wait_for(hosted.submit(ask((6, 0)), to=place), 20))


async def test_an_instance_whose_sample_fails_does_not_join_and_the_others_serve_on(
    hosts: Hosts, tmp_path: pathlib.Path
) -> None:
    raises = 2
    warmup = Recorded(sample(numbers(6, 0)))
    hosted = await start(hosts, tmp_path, 1, warmup=warmup)
    bad = sample(numbers(raises, 0), name="bad")
    hosted.worker.loads._warmup = Recorded(bad)
    with pytest.raises(InferenceError, match="failed to run warmup sample 'bad'"):
        await hosted.add(more(tmp_path, "m_1"))
    answers(await hosted.run(ask((6, 0))))


async def test_an_instance_whose_samples_cannot_be_sent_leaves_its_place_and_joins_later(
    hosts: Hosts, tmp_path: pathlib.Path
) -> None:
    hosted = await start(hosts, tmp_path, 1, warmup=Recorded(sample(numbers(6, 0))))
    pid = hosted.worker.pid
    assert hosted.worker.worker is not None
    links = hosted.worker.worker.instances

    class Full(Recorded):
        @override
        def message(self) -> Any:
            raise OSError(errno.EMFILE, "Too many open files")

    warmup, hosted.worker.loads._warmup = hosted.worker.loads._warmup, Full(sample(numbers(6, 0)))
    with pytest.raises(InferenceError, match="Too many open files"):
        await hosted.add(more(tmp_path, "m_1"))
    await until(lambda: list(links.by_place) == [0])
    hosted.worker.loads._warmup = warmup
    await hosted.add(more(tmp_path, "m_1"))
    answers(await asyncio.wait_for(hosted.submit(ask((6, 0)), to=1), 20))
    assert hosted.worker.pid == pid


async def test_a_load_limit_includes_the_warmup(hosts: Hosts) -> None:
    body = NOTES.replace("return same", "time.sleep(60)\n        return same")
    with pytest.raises(InferenceError, match=r"took longer than naiad\.load_timeout"):
        await hosts.start(body, warmup=Recorded(sample(numbers(1, 2))), load_timeout_s=1)


def test_nothing_is_sent_for_a_model_without_samples() -> None:
    assert not Recorded()
    assert Recorded().iterations == 0
    assert Recorded(sample(numbers(1)), sample(numbers(1), count=4)).iterations == 5
