"""A process host: batches to a worker process and back, errors and readiness. Deaths, output and children have files of their own.

Real processes throughout; what is waited for is polled.
"""

import asyncio
import os
import pathlib
import signal
import subprocess
import time
from typing import Any

import numpy as np
import pytest

from naiad.backends import backend_runner
from naiad.backends.backend import ModelSource
from naiad.backends.instance import InstanceSpec
from naiad.config.model_config import InstanceKind
from naiad.core import datatypes
from naiad.errors import ErrorCode, FailureReason
from naiad.hosts import host as host_module
from naiad.hosts.host import BatchOutcome
from naiad.hosts.process import process_host
from tests.server.backends.configs import inference, spec, tensor
from tests.server.backends.python.models import python_config
from tests.server.hosts.process.workers import (
    GIVE_UP_S,
    SAME,
    WAITS_FOR_A_FILE,
    Hosts,
    answers,
    ask,
    begun,
)
from tests.support.waiting import until


async def test_a_batch_goes_to_a_process_of_its_own_and_comes_back_in_order(hosts: Hosts) -> None:
    hosted = await hosts.start(
        """
        def execute(self, requests):
            return [response(os.getpid(), each.inputs()[0].as_numpy()[0, 0]) for each in requests]
        """
    )
    batch = [ask((1, 0)), ask((2, 0))]
    outcome = await hosted.run(*batch)
    pid = hosted.worker.pid
    assert answers(outcome) == [{"OUT": [[pid, 1]]}, {"OUT": [[pid, 2]]}]
    assert pid != os.getpid()
    assert outcome.batch == batch
    assert outcome.execution is not None
    execution = outcome.execution
    assert (
        outcome.compute_start_ns
        < execution.input_end_ns
        <= execution.output_start_ns
        < outcome.compute_end_ns
    )


@pytest.mark.parametrize("aside", [1 << 22, 0], ids=["copied by the loop", "copied by a thread"])
@pytest.mark.parametrize(
    "gathers", [False, True], ids=["reads them where they lie", "gathers them itself"]
)
async def test_inputs_are_ready_when_they_lie_where_the_model_reads_them(
    hosts: Hosts, monkeypatch: pytest.MonkeyPatch, *, gathers: bool, aside: int
) -> None:
    monkeypatch.setattr(process_host, "COPIED_ASIDE", aside)
    sent: list[object] = []
    by_thread = process_host.ProcessHost._sent

    def noted(self: process_host.ProcessHost, *what: Any) -> None:
        sent.append(what)
        by_thread(self, *what)

    monkeypatch.setattr(process_host.ProcessHost, "_sent", noted)
    hosted = await hosts.start(SAME)
    assert not hosted.worker.gathers_inputs, "as a model of the Python backend says"
    hosted.worker.gathers_inputs = gathers
    os.kill(hosted.worker.pid, signal.SIGSTOP)
    submitted = hosted.submit(ask((1, 0)), ask((2, 0)))
    await until(lambda: sent or aside)
    woken_ns = time.monotonic_ns()
    os.kill(hosted.worker.pid, signal.SIGCONT)
    outcome = await asyncio.wait_for(submitted, GIVE_UP_S)
    assert outcome.execution is not None
    assert woken_ns < outcome.execution.input_end_ns
    assert outcome.compute_start_ns <= outcome.input_end_ns
    assert (outcome.input_end_ns < woken_ns) is not gathers


async def test_ps_shows_which_model_and_instance_a_process_serves(hosts: Hosts) -> None:
    hosted = await hosts.start(SAME)
    shown = subprocess.run(  # noqa: ASYNC221 - it takes milliseconds
        ["/bin/ps", "-o", "comm=,args=", "-p", str(hosted.worker.pid)],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert shown.split() == [
        "m_0_0",
        "naiad-worker",
        "--model",
        "m",
        "--version",
        "1",
        "--instance",
        "m_0_0",
    ]


@pytest.mark.parametrize(
    ("datatype", "rows"),
    [
        (datatypes.FP32, [[1.5, -2.0]]),
        (datatypes.FP16, [[1.5, -2.0]]),
        (datatypes.INT8, [[-128, 127]]),
        (datatypes.UINT64, [[0, 2**64 - 1]]),
        (datatypes.BOOL, [[True, False]]),
        (datatypes.BYTES, [[b"", "naïad".encode()]]),
        (datatypes.FP32, np.zeros((1, 0)).tolist()),
        (datatypes.BYTES, np.zeros((1, 0)).tolist()),
    ],
    ids=str,
)
async def test_values_of_every_kind_survive_the_journey(
    hosts: Hosts, datatype: datatypes.DataType, rows: list[list[object]]
) -> None:
    hosted = await hosts.start(
        SAME,
        inputs=[spec("IN", datatype, (-1,))],
        outputs=[spec("OUT", datatype, (-1,))],
    )
    outcome = await hosted.run(inference(tensor("IN", rows, datatype)))
    assert answers(outcome) == [{"OUT": rows}]
    assert outcome.execution is not None
    response = outcome.execution.responses[0]
    assert response is not None
    assert response.outputs[0].datatype is datatype


async def test_large_tensors_come_back_whole_again_and_again_while_the_last_is_still_held(
    hosts: Hosts,
) -> None:
    hosted = await hosts.start(
        SAME,
        inputs=[spec("IN", datatypes.FP32, (-1,))],
        outputs=[spec("OUT", datatypes.FP32, (-1,))],
    )
    held: list[BatchOutcome] = []
    for number in range(8):
        row = np.full((1, 500_000 + number), number, np.float32)
        held.append(await hosted.run(inference(tensor("IN", row))))
    for number, outcome in enumerate(held):
        assert outcome.execution is not None
        response = outcome.execution.responses[0]
        assert response is not None
        array = response.outputs[0].array
        assert array.shape == (1, 500_000 + number)
        assert (array == number).all()


async def test_a_small_batch_is_one_system_call_to_send_and_one_to_receive(
    hosts: Hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosted = await hosts.start(SAME)
    await hosted.run()
    worker = hosted.worker.worker
    assert worker is not None
    sent, received = list[int](), list[int]()
    link_send, link_receive = worker.links[0]._pass, worker.links[0].receive

    def send(message: bytes, descriptor: int) -> None:
        sent.append(1)
        link_send(message, descriptor)

    def receive() -> tuple[int, int, bytes | bytearray]:
        received.append(1)
        return link_receive()

    monkeypatch.setattr(worker.links[0], "_pass", send)
    monkeypatch.setattr(worker.links[0], "receive", receive)
    await hosted.run(*(ask() for _ in range(8)))
    assert (sum(sent), sum(received)) == (1, 1)


async def test_what_the_client_sent_along_is_there_for_the_model(hosts: Hosts) -> None:
    hosted = await hosts.start(
        """
        def execute(self, requests):
            said = [f"{r.request_id()} {r.correlation_id()} {r.flags()} {r.timeout()} {r.parameters()} "
                    f"{sorted(r.requested_output_names())}" for r in requests]
            return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.array([[each.encode()]], object))],
                    parameters={"n": 3, "b": True, "s": "x"}) for each in said]
        """,
        outputs=[spec("OUT", datatypes.BYTES, (1,))],
    )
    request = ask(
        request_id="r1", parameters={"k": 1.5, "ü": "x"}, correlation_id="c", flags=3, timeout_us=7
    )
    outcome = await hosted.run(request)
    assert answers(outcome) == [{"OUT": [['r1 c 3 7 {"k":1.5,"ü":"x"} [\'OUT\']'.encode()]]}]
    assert outcome.execution is not None
    response = outcome.execution.responses[0]
    assert response is not None
    assert (response.id, response.parameters) == ("r1", {"n": 3, "b": True, "s": "x"})


async def test_a_request_may_fail_alone_and_what_raises_fails_its_batch_with_the_model_s_lines_first(
    hosts: Hosts,
) -> None:
    hosted = await hosts.start(
        """
        def execute(self, requests):
            if len(requests) > 1:
                return [response(1, 2), pb_utils.InferenceResponse(
                    error=pb_utils.TritonError("no such thing", pb_utils.TritonError.NOT_FOUND))]
            raise ValueError("out of luck")
        """
    )
    outcome = await hosted.run(ask(), ask())
    assert outcome.execution is not None
    good, bad = outcome.execution.responses
    assert good is not None
    assert good.error is None
    assert bad is not None
    assert bad.error is not None
    assert (bad.error.code, bad.error.message) == (ErrorCode.NOT_FOUND, "no such thing")
    assert bad.error.reason is FailureReason.BACKEND
    error = (await hosted.run()).error
    assert error is not None
    assert error.code is ErrorCode.INTERNAL
    assert error.reason is FailureReason.BACKEND
    assert (
        "Failed to process the request(s) for model 'm_0_0', message: ValueError: out of luck"
        in (error.message)
    )
    assert "1/model.py(" in error.message
    assert "naiad/hosts" not in error.message
    assert hosted.usable == []


async def test_output_that_is_not_text_is_shown_and_ends_nothing(hosts: Hosts) -> None:
    hosted = await hosts.start(
        """
        def execute(self, requests):
            raise ValueError("no file \\udcff, \\n\\t\\x00 \\" ü")
        """
    )
    error = (await hosted.run()).error
    assert error is not None
    assert 'ValueError: no file ?, \n\t\x00 " ü' in error.message
    assert hosted.usable == []


async def test_an_answer_that_there_is_no_memory_for_fails_its_batch_and_the_worker_lives_on(
    hosts: Hosts,
) -> None:
    hosted = await hosts.start(
        """
        def execute(self, requests):
            import resource
            if requests[0].inputs()[0].as_numpy()[0, 0]:
                resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
                return [response(*[0] * 100_000)]
            return same(requests)
        """,
        outputs=[spec("OUT", datatypes.FP32, (-1,))],
    )
    outcome = await hosted.run()
    assert outcome.error is not None
    assert outcome.error.code is ErrorCode.INTERNAL
    assert "the answer of 400000 bytes could not be handed over" in outcome.error.message
    assert answers(await hosted.run(ask((0, 1)))) == [{"OUT": [[0, 1]]}]
    assert hosted.restarts == []


async def test_a_model_that_calls_exit_fails_its_batch_and_the_worker_lives_on(
    hosts: Hosts,
) -> None:
    hosted = await hosts.start("def execute(self, requests): sys.exit(3)")
    pid = hosted.worker.pid
    error = (await hosted.run()).error
    assert error is not None
    assert "SystemExit" in error.message
    assert hosted.worker.pid == pid
    assert hosted.usable == []


@pytest.mark.parametrize(
    ("body", "ready"),
    [
        ("def is_ready(self): return True", [True]),
        ("def is_ready(self): return False", [False]),
        ("def is_ready(self): raise ValueError('x')", [False]),
        ("def is_ready(self): return 1", [False]),
        ("async def is_ready(self): return True", [True]),
        ("def is_ready(self): time.sleep(60)", [False]),
    ],
)
@pytest.mark.slow
async def test_readiness_is_what_the_model_says(
    hosts: Hosts, body: str, ready: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_module, "READY_TIMEOUT_S", 0.5 if "sleep" in body else GIVE_UP_S)
    hosted = await hosts.start(f"{body}\ndef execute(self, requests): return same(requests)")
    assert [await asyncio.wait_for(hosted.host.ready(), GIVE_UP_S)] == ready
    assert answers(await hosted.run()) == [{"OUT": [[1, 2]]}]


async def test_readiness_is_reported_while_a_batch_runs(
    hosts: Hosts, tmp_path: pathlib.Path
) -> None:
    hosted = await hosts.start(WAITS_FOR_A_FILE)
    out = hosted.submit()
    await begun(tmp_path)
    assert await asyncio.wait_for(asyncio.gather(*[hosted.host.ready()] * 1), GIVE_UP_S) == [True]
    assert not out.done()
    (tmp_path / "go").touch()
    await out


async def test_a_worker_that_cannot_start_a_thread_is_not_ready_until_it_can_again(
    hosts: Hosts,
) -> None:
    hosted = await hosts.start(
        """
        def initialize(self, args):
            self.hook = threading.excepthook
        def is_ready(self):
            return True
        def execute(self, requests):
            # What any new thread fails for, as one does that the system has no room for.
            threading.excepthook = None if requests[0].inputs()[0].as_numpy()[0, 0] else self.hook
            return same(requests)
        """
    )
    assert await hosted.host.ready()
    await hosted.run()
    assert not await asyncio.wait_for(hosted.host.ready(), host_module.READY_TIMEOUT_S - 1)
    await hosted.run(ask((0, 1)))
    assert await hosted.host.ready()
    assert hosted.restarts == []


@pytest.mark.slow
async def test_a_backend_without_a_runner_of_its_own_runs_as_it_is(
    hosts: Hosts, tmp_path: pathlib.Path
) -> None:
    config = python_config()
    source = ModelSource(config=config, version=1, model_dir=tmp_path, options={})
    one = InstanceSpec(name="m_0_0", kind=InstanceKind.CPU, device_id=0)
    hosted = await hosts.start(SAME, worker_plan=backend_runner.plan_of(source, one))
    assert answers(await hosted.run(ask((3, 4)), ask((5, 6)))) == [
        {"OUT": [[3, 4]]},
        {"OUT": [[5, 6]]},
    ]
    assert await hosted.host.ready()
