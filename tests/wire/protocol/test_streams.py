"""Streams as users know them: server-sent events over plain HTTP, and Triton's own gRPC clients."""

import asyncio
import collections.abc
import contextlib
import http.client
import json
import pathlib
import socket
import time
from typing import Any

import pytest
import tritonclient.grpc.aio as aio_client
from tritonclient.utils import InferenceServerException

from tests.reference.process import ServerProcess, naiad_program
from tests.support.waiting import wait_until
from tests.wire.protocol import stream_models
from tests.wire.protocol.stream_clients import (
    GIVE_UP_S,
    event,
    events,
    given,
    posted,
    stream,
    words,
)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return stream_models.make(tmp_path_factory.mktemp("streams"))


@pytest.fixture(scope="module")
def server(
    models: pathlib.Path, tmp_path_factory: pytest.TempPathFactory
) -> collections.abc.Iterator[ServerProcess]:
    log = tmp_path_factory.mktemp("log") / "server.log"
    with ServerProcess(naiad_program(), [models], log=log) as running:
        yield running


class TestHttp:
    def test_generate_answers_with_the_one_response(self, server: ServerProcess) -> None:
        for model, script, said in (("scripted", "hello", "hello"), ("plain", "a b", "A B")):
            with posted(server, f"{model}/generate", {"SCRIPT": script, "id": "r"}) as reply:
                assert reply.status == 200
                document = json.loads(reply.read())
            assert document == {"WORD": said, "id": "r", "model_name": model, "model_version": "1"}

    def test_events_come_while_the_model_still_works(
        self, server: ServerProcess, tmp_path: pathlib.Path
    ) -> None:
        gate = tmp_path / "gate"
        script = {"SCRIPT": f"a b gate:{gate} c"}
        with posted(server, "scripted/generate_stream", script) as reply:
            assert reply.status == 200
            assert reply.headers["Content-Type"] == "text/event-stream; charset=utf-8"
            assert [event(reply)["WORD"], event(reply)["WORD"]] == ["a", "b"]
            gate.touch()
            assert words(events(reply)) == ["c"]

    def test_an_ordinary_model_streams_its_one_answer(self, server: ServerProcess) -> None:
        with posted(server, "plain/generate_stream", {"SCRIPT": "a"}) as reply:
            assert words(events(reply)) == ["A"]

    def test_an_error_in_the_middle_is_an_event_and_others_follow(
        self, server: ServerProcess
    ) -> None:
        with posted(server, "scripted/generate_stream", {"SCRIPT": "a error b"}) as reply:
            assert reply.status == 200
            assert words(events(reply)) == ["a", "went wrong", "b"]

    def test_a_model_that_raises_after_some_answers_ends_its_stream_with_the_error(
        self, server: ServerProcess
    ) -> None:
        with posted(server, "scripted/generate_stream", {"SCRIPT": "a b raise"}) as reply:
            received = words(events(reply))
        assert received[:2] == ["a", "b"]
        assert len(received) == 3
        assert "ValueError: raised on purpose" in received[2]

    def test_the_first_error_sets_the_status(self, server: ServerProcess) -> None:
        with posted(server, "scripted/generate_stream", {"SCRIPT": "error a"}) as reply:
            assert reply.status == 404
            assert words(events(reply)) == ["went wrong", "a"]

    def test_infer_answers_with_events_when_the_client_takes_them(
        self, server: ServerProcess
    ) -> None:
        body = {
            "id": "r",
            "inputs": [{"name": "SCRIPT", "datatype": "BYTES", "shape": [1], "data": ["a b"]}],
        }
        with posted(server, "scripted/infer", body, Accept="text/event-stream") as reply:
            assert reply.headers["Content-Type"] == "text/event-stream; charset=utf-8"
            received = events(reply)
        assert [each["outputs"][0]["data"] for each in received] == [["a"], ["b"]]
        assert {each["id"] for each in received} == {"r"}
        with posted(server, "scripted/infer", body) as reply:
            assert reply.status == 501
            assert b"Accept: text/event-stream" in reply.read()

    def test_a_client_that_disconnects_cancels_the_request(self, server: ServerProcess) -> None:
        before = server.output().count("cancelled True")
        with posted(server, "scripted/generate_stream", {"SCRIPT": "a wait"}) as reply:
            assert event(reply)["WORD"] == "a"
        wait_until(lambda: server.output().count("cancelled True") == before + 1)
        with posted(server, "scripted/generate", {"SCRIPT": "on"}) as reply:
            assert json.loads(reply.read())["WORD"] == "on"

    @pytest.mark.slow
    def test_a_slow_reader_holds_the_model_and_not_the_memory(self, server: ServerProcess) -> None:
        megabytes = 150
        with posted(server, "scripted/generate_stream", {"SCRIPT": f"large:{megabytes}"}) as reply:
            assert len(event(reply)["WORD"]) == 1_000_000
            before = sent_megabytes(server)
            while (now := sent_megabytes(server)) != before or now == 0:
                before = now
                time.sleep(0.3)
            assert now < 30  # the kernel's buffers, the connection's, and a megabyte on the way
            received = events(reply)
        assert len(received) == megabytes - 1
        assert {len(each["WORD"]) for each in received} == {1_000_000}

    @pytest.mark.slow
    def test_a_slow_reader_that_leaves_frees_the_model(self, server: ServerProcess) -> None:
        with posted(server, "scripted/generate_stream", {"SCRIPT": "large:151"}) as reply:
            assert event(reply) is not None
        with posted(server, "scripted/generate", {"SCRIPT": "on"}) as reply:
            assert json.loads(reply.read())["WORD"] == "on"

    def test_coroutines_of_one_instance_stream_side_by_side(
        self, server: ServerProcess, tmp_path: pathlib.Path
    ) -> None:
        gate = tmp_path / "gate"
        with posted(server, "async/generate_stream", {"SCRIPT": f"0 gate:{gate} 4"}) as slow:
            assert event(slow)["WORD"] == "0"
            with posted(server, "async/generate_stream", {"SCRIPT": "1 2 3"}) as fast:
                assert words(events(fast)) == ["1", "2", "3"]
            gate.touch()
            assert words(events(slow)) == ["4"]

    def test_a_slow_reader_of_a_coroutine_is_cut_off_and_delays_no_other_request(
        self, server: ServerProcess
    ) -> None:
        cut_off = "does not read what it is sent"
        before = server.output().count(cut_off)
        with posted(server, "async/generate_stream", {"SCRIPT": "0 large:200"}) as slow:
            assert event(slow)["WORD"] == "0"
            with posted(server, "async/generate_stream", {"SCRIPT": "1 2"}) as other:
                assert words(events(other)) == ["1", "2"]
            wait_until(lambda: server.output().count(cut_off) > before)
            received = 0
            with contextlib.suppress(OSError, http.client.HTTPException):
                while event(slow) is not None:
                    received += 1
            assert received < 200

    @pytest.mark.slow
    def test_streams_asked_for_at_once_on_one_connection_come_one_after_the_other(
        self, server: ServerProcess
    ) -> None:
        host, port = server.http.split(":")
        body = json.dumps({"SCRIPT": "300 1 2"})
        head = f"POST /v2/models/async/generate_stream HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
        with socket.create_connection((host, int(port)), timeout=GIVE_UP_S) as peer:
            peer.sendall((head + body).encode() * 3)
            got = b""
            while got.count(b"\r\n0\r\n\r\n") < 3:
                piece = peer.recv(65536)
                assert piece
                got += piece
        assert got.count(b"HTTP/1.1 200 OK") == 3
        assert got.count(b"data: ") == 9


def sent_megabytes(server: ServerProcess) -> int:
    """How far the last `large` of the log is."""
    lines = [line for line in server.output().splitlines() if " MB" in line and "sent " in line]
    return int(lines[-1].rpartition("sent ")[2].split()[0]) if lines else 0


class TestGrpc:
    def test_answers_come_with_their_marks(self, server: ServerProcess) -> None:
        with stream(server) as asked:
            asked.ask("a b", "1")
            asked.ask("a last", "2")
            asked.ask("c", "3", enable_empty_final_response=True)
            assert asked.all(6) == [
                ("1", "a", False),
                ("1", "b", False),
                ("2", "a", False),
                ("2", "last", True),
                ("3", "c", False),
                ("3", "", True),
            ]
            assert asked.nothing_more()

    def test_ordinary_models_answer_in_order_beside_decoupled_ones(
        self, server: ServerProcess, tmp_path: pathlib.Path
    ) -> None:
        gate = tmp_path / "gate"
        with stream(server) as asked:
            asked.ask(f"gate:{gate} slow", "d")
            for number in range(20):
                asked.ask("a", str(number), model="plain")
            assert asked.all(20) == [(str(number), "A", True) for number in range(20)]
            gate.touch()
            assert asked.next() == ("d", "slow", False)

    def test_errors_leave_the_stream_as_it_is(self, server: ServerProcess) -> None:
        with stream(server) as asked:
            asked.ask("a error b", "1")
            assert asked.all(3) == [("1", "a", False), ("", "went wrong", False), ("1", "b", False)]
            asked.ask("a raise", "2")
            assert asked.next() == ("2", "a", False)
            assert "ValueError: raised on purpose" in asked.next()[1]
            asked.ask("a", model="nope")
            assert "'nope' is not found" in asked.next()[1]
            asked.ask("on", "3")
            assert asked.next() == ("3", "on", False)

    def test_a_client_that_wants_a_status_has_its_stream_ended_with_it(
        self, server: ServerProcess
    ) -> None:
        with stream(server, headers={"triton_grpc_error": "true"}) as asked:
            asked.ask("a error b", "1")
            assert asked.next() == ("1", "a", False)
            _, error = asked.answers.get(timeout=GIVE_UP_S)
            assert error is not None
            assert (error.message(), error.status()) == ("went wrong", "StatusCode.NOT_FOUND")

    def test_a_client_that_cancels_its_stream_cancels_its_requests(
        self, server: ServerProcess
    ) -> None:
        before = server.output().count("cancelled True")
        with stream(server) as asked:
            asked.ask("a wait", "1")
            assert asked.next() == ("1", "a", False)
            asked.client.stop_stream(cancel_requests=True)
            wait_until(lambda: server.output().count("cancelled True") == before + 1)

    @pytest.mark.slow
    def test_a_stream_that_times_out_cancels_its_requests(self, server: ServerProcess) -> None:
        before = server.output().count("cancelled True")
        with stream(server, stream_timeout=5) as asked:
            asked.ask("a wait", "1")
            assert asked.next() == ("1", "a", False)
            assert "Deadline Exceeded" in asked.next()[1]
            wait_until(lambda: server.output().count("cancelled True") == before + 1)

    def test_a_client_that_vanishes_cancels_its_requests(self, server: ServerProcess) -> None:
        before = server.output().count("cancelled True")
        with stream(server) as asked:
            asked.ask("a wait", "1")
            assert asked.next() == ("1", "a", False)
            asked.client._channel.close()  # `close` of the client waits for what is asked
            wait_until(lambda: server.output().count("cancelled True") == before + 1)

    async def test_the_asyncio_client_streams_too(self, server: ServerProcess) -> None:
        async def requests() -> collections.abc.AsyncIterator[dict[str, Any]]:
            for number in range(3):
                yield {
                    "model_name": "scripted", "inputs": given("a b"), "request_id": str(number),
                }  # fmt: skip

        async with aio_client.InferenceServerClient(server.grpc) as client:
            got: list[tuple[str, str]] = []
            async for result, error in client.stream_infer(requests()):
                assert error is None
                got.append((result.get_response().id, result.as_numpy("WORD")[0].decode()))
        assert got == [(str(number), word) for number in range(3) for word in "ab"]

    async def test_unary_calls_to_a_decoupled_model_say_which_call_to_use(
        self, server: ServerProcess
    ) -> None:
        async with aio_client.InferenceServerClient(server.grpc) as client:
            with pytest.raises(
                InferenceServerException, match="doesn't support models with decoupled"
            ):
                await asyncio.wait_for(client.infer("scripted", given("a")), GIVE_UP_S)


def _only(*names: str) -> list[str]:
    """Options of a server that loads no other models."""
    return ["--model-control-mode=explicit", *(f"--load-model={name}" for name in names)]


@pytest.mark.slow
def test_a_shutdown_finishes_active_streams(models: pathlib.Path, tmp_path: pathlib.Path) -> None:
    gate = tmp_path / "gate"
    options = _only("scripted", "async", "plain")
    with ServerProcess(naiad_program(), [models], log=tmp_path / "log", options=options) as server:
        with (
            stream(server) as asked,
            stream(server) as idle,
            posted(server, "async/generate_stream", {"SCRIPT": f"0 gate:{gate} 1"}) as reply,
        ):
            idle.ask("a", model="plain")
            idle.next()
            asked.ask(f"a gate:{gate} b", "1")
            assert asked.next() == ("1", "a", False)
            assert event(reply)["WORD"] == "0"
            server.ask_to_stop()
            assert "GRPC server is shutting down" in idle.next()[1]
            gate.touch()
            assert words(events(reply)) == ["1"]
            assert asked.next() == ("1", "b", False)
            assert "GRPC server is shutting down" in asked.next()[1]
        assert server.process is not None
        assert server.process.wait(GIVE_UP_S) == 0


@pytest.mark.slow
def test_a_stream_that_does_not_end_costs_no_more_than_the_exit_timeout(
    models: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    options = [*_only("scripted"), "--exit-timeout-secs=1"]
    with (
        ServerProcess(naiad_program(), [models], log=tmp_path / "log", options=options) as server,
        posted(server, "scripted/generate_stream", {"SCRIPT": "a sleep:60"}) as reply,
    ):
        assert event(reply)["WORD"] == "a"
        server.ask_to_stop()
        assert server.process is not None
        assert server.process.wait(GIVE_UP_S) == 1
