"""How fast a model in a worker process may send: no faster than its client takes it, and never far ahead of the server."""

import asyncio
import os
import pathlib
import signal
import time

import pytest

from naiad.core import datatypes
from naiad.core.flow import Flow
from naiad.hosts.host import DeferredResponse
from tests.server.backends.configs import spec
from tests.server.hosts.process.workers import GIVE_UP_S, Hosted, Hosts, ask, told
from tests.support.waiting import until

pytestmark = pytest.mark.slow

TOLD_TO_BEGIN = """
def initialize(self, args):
    self.go = args["model_repository"] + "/go"

def execute(self, requests):
    while not os.path.exists(self.go):
        time.sleep(0.005)
    sender = requests[0].get_response_sender()
    for number in range(1000):
        sender.send(response(number, 0))
    sender.send(flags=FINAL)
"""

MEGABYTES = """
def execute(self, requests):
    self.send(requests[0].get_response_sender())

def send(self, sender):
    megabyte = pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.zeros((1, 250_000), np.float32))])
    for _ in range(60):
        sender.send(megabyte)
    sender.send(flags=FINAL)
"""


async def held(hosted: Hosted, folder: pathlib.Path) -> "tuple[Flow, asyncio.Future[object]]":
    """A request whose client takes nothing, and its batch; the model has sent what it sends all the same."""
    slow = ask()
    slow.flow = Flow()
    slow.flow.pause()
    out = hosted.submit(slow)
    # The worker hears one thing after the other: once it has said that it is ready, it knows of the hold.
    assert await asyncio.wait_for(hosted.host.ready(), GIVE_UP_S)
    (folder / "go").touch()
    await until(lambda: hosted.answers)
    return slow.flow, asyncio.ensure_future(out)


async def test_a_model_waits_while_its_client_does_not_take_what_it_sends(
    hosts: Hosts, tmp_path: pathlib.Path
) -> None:
    hosted = await hosts.start(TOLD_TO_BEGIN, decoupled=True)
    flow, out = await held(hosted, tmp_path)
    for _ in range(3):  # the model had its chances to send: its worker has answered since
        assert await asyncio.wait_for(hosted.host.ready(), GIVE_UP_S)
    assert told(hosted) == [0]
    assert not out.done()
    flow.resume()
    await asyncio.wait_for(out, GIVE_UP_S)
    assert told(hosted) == [*range(1000), "end!"]


@pytest.mark.parametrize("way", ["cancel", "kill"])
async def test_a_model_that_is_held_does_not_wait_for_a_client_that_left(
    hosts: Hosts, tmp_path: pathlib.Path, way: str
) -> None:
    hosted = await hosts.start(TOLD_TO_BEGIN, decoupled=True)
    _, out = await held(hosted, tmp_path)
    if way == "cancel":
        hosted.answers[0].inference.cancel()
    else:
        os.kill(hosted.worker.pid, signal.SIGKILL)
    await asyncio.wait_for(out, GIVE_UP_S)


@pytest.mark.parametrize("way", ["thread", "coroutine", "beside the batch"])
async def test_a_model_is_never_far_ahead_of_a_server_that_has_other_things_to_do(
    hosts: Hosts, way: str
) -> None:
    """Else dozens of large responses are there before the client can be called slow, which it is not, and it is cut off for them."""
    body = MEGABYTES
    if way == "coroutine":
        body = body.replace("def execute", "async def execute")
    elif way == "beside the batch":
        body = body.replace(
            "self.send(requests[0].get_response_sender())",
            "threading.Thread(target=self.send, args=(requests[0].get_response_sender(),)).start()",
        )
    hosted = await hosts.start(body, decoupled=True, outputs=[spec("OUT", datatypes.FP32, (-1,))])
    asked = ask()
    asked.flow = flow = Flow()
    piled = most = 0

    def go_on() -> None:
        nonlocal piled
        piled = 0
        flow.resume()

    def on_deferred(answer: DeferredResponse) -> None:
        nonlocal piled, most
        hosted.answers.append(answer)
        piled += answer.weight
        most = max(most, piled)
        # As a connection does that is full for a moment: it says so, and has room again in the loop's next turn.
        flow.coming(answer.weight)
        flow.pause()
        flow.arrived(answer.weight)
        asyncio.get_running_loop().call_soon(go_on)

    hosted.host.deferred_to(on_deferred)
    out = hosted.submit(asked)
    for _ in range(10):
        time.sleep(0.05)  # noqa: ASYNC251 - this is the server that has other things to do
        await asyncio.sleep(0)
    await asyncio.wait_for(out, GIVE_UP_S)
    await until(lambda: len(hosted.answers) == 61)
    assert most < 6_000_000


@pytest.mark.parametrize("megabytes", [3, 20])
async def test_a_client_that_reads_large_answers_is_not_taken_for_one_that_does_not_read(
    hosts: Hosts, megabytes: int
) -> None:
    hosted = await hosts.start(
        """
        def execute(self, requests):
            count, megabytes = map(int, requests[0].inputs()[0].as_numpy()[0])
            sender = requests[0].get_response_sender()
            numbers = np.zeros((1, megabytes << 18), np.float32)
            for _ in range(count):
                sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", numbers)]))
            sender.send(flags=FINAL)
        """,
        decoupled=True,
        outputs=[spec("OUT", datatypes.FP32, (-1,))],
    )
    slow = ask((6, megabytes))
    flow = slow.flow = Flow()
    piled: list[bool] = []

    def read(answer: DeferredResponse) -> None:
        # As a protocol does: what is written fills the connection, and is gone from it a moment later.
        flow.coming(answer.weight)
        flow.pause()
        flow.arrived(answer.weight)
        piled.append(flow.overran())
        asyncio.get_running_loop().call_later(0.2, flow.resume)

    hosted.host.deferred_to(read)
    outcome = await hosted.run(slow)
    assert outcome.error is None
    await until(lambda: len(piled) == 7)
    assert not any(piled)
