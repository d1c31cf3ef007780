"""How a worker process is ended, one that cannot be ended included: every wait has an end, and no signal reaches another process."""

import asyncio
import contextlib
import errno
import os
import pathlib
import signal
import subprocess
import sys
from typing import Any

import pytest

from naiad.errors import InferenceError
from naiad.hosts.link.kinds import CLOSE
from naiad.hosts.link.link import LinkBrokenError
from naiad.hosts.process import supervisor, worker_process
from naiad.hosts.process.instance_links import InstanceLinks
from naiad.hosts.process.spawn import ORPHAN_REAPER
from naiad.hosts.process.worker_process import WorkerProcess
from naiad.hosts.worker import main
from tests.server.hosts.process.workers import GIVE_UP_S, SAME, Hosts, answers, ask, exists
from tests.support.waiting import until


async def test_a_batch_that_is_waited_for_no_longer_fails_at_once_and_its_worker_is_killed(
    hosts: Hosts,
) -> None:
    hosted = await hosts.start(
        """
        def execute(self, requests):
            time.sleep(60)
        """
    )
    pid = hosted.worker.pid
    out = hosted.submit()
    hosted.host.abort("every client left")
    assert out.done()
    error = out.result().error
    assert error is not None
    assert "was killed, because every client left" in error.message
    await asyncio.wait_for(hosted.host.close(), GIVE_UP_S)
    assert not exists(pid)


async def test_a_late_close_kills_a_busy_worker_whose_batch_fails(hosts: Hosts) -> None:
    hosted = await hosts.start(
        """
        def execute(self, requests):
            time.sleep(60)
        """
    )
    pid = hosted.worker.pid
    out = hosted.submit()
    await asyncio.wait_for(hosted.host.close_late("the time is over"), GIVE_UP_S)
    assert not exists(pid)
    error = out.result().error
    assert error is not None
    assert "was killed, because the time is over" in error.message
    assert hosted.restarts == []
    await hosted.host.close_late("the time is over")


async def test_a_late_close_ends_a_close_that_waits_for_a_batch(hosts: Hosts) -> None:
    hosted = await hosts.start(
        """
        def execute(self, requests):
            time.sleep(60)
        """
    )
    out = hosted.submit()
    closing = asyncio.create_task(hosted.host.close())
    await asyncio.sleep(0)
    assert not closing.done()
    await asyncio.wait_for(hosted.host.close_late("the time is over"), GIVE_UP_S)
    await asyncio.wait_for(closing, GIVE_UP_S)
    assert out.result().error is not None


async def test_a_late_close_of_a_worker_that_is_being_restarted_leaves_none(hosts: Hosts) -> None:
    others = set(
        ORPHAN_REAPER.groups()
    )  # another test may have left a worker that has not ended yet
    hosted = await hosts.start(SAME)
    os.kill(hosted.worker.pid, signal.SIGKILL)
    await until(lambda: hosted.restarts)
    await asyncio.wait_for(hosted.host.close_late("the time is over"), GIVE_UP_S)
    assert hosted.worker.pid == 0
    await until(lambda: set(ORPHAN_REAPER.groups()) <= others)


async def test_a_process_that_not_even_sigkill_ends_is_left_behind_and_reaped_when_it_does(
    hosts: Hosts, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As one in state D, which here only does not get the signal."""
    monkeypatch.setattr(worker_process, "UNKILLABLE_S", 0.05)
    hosted = await hosts.start(SAME)
    pid = hosted.worker.pid
    with monkeypatch.context() as unkillable:
        unkillable.setattr(signal, "pidfd_send_signal", lambda *_: None)
        unkillable.setattr(InstanceLinks, "send", lambda *_: None)
        unkillable.setattr(supervisor, "FINALIZE_TIMEOUT_S", 0.05)
        await asyncio.wait_for(hosted.host.close(), GIVE_UP_S)
    assert "is left behind" in caplog.text
    assert hosted.worker.pid == 0
    with contextlib.suppress(ProcessLookupError):  # it may have seen that its link is closed
        os.kill(pid, signal.SIGKILL)
    await until(lambda: not pathlib.Path(f"/proc/{pid}").exists())
    assert hosted.restarts == []


@pytest.mark.slow
async def test_a_hung_worker_that_not_even_sigkill_ends_is_replaced(
    hosts: Hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_process, "UNKILLABLE_S", 0.05)
    hosted = await hosts.start(
        """
        def execute(self, requests):
            if requests[0].inputs()[0].as_numpy()[0, 0] < 0:
                time.sleep(60)
            return same(requests)
        """,
        timeout_s=2,
    )
    pid = hosted.worker.pid
    with monkeypatch.context() as unkillable:
        unkillable.setattr(signal, "pidfd_send_signal", lambda *_: None)
        unkillable.setattr(WorkerProcess, "_signal", lambda *_: True)
        outcome = await hosted.run(ask((-1, 0)))
        assert outcome.error is not None
        await until(lambda: hosted.usable == [False, True])
    assert answers(await hosted.run(ask((1, 2)))) == [{"OUT": [[1, 2]]}]
    # Its links are closed, so that this one ends by itself.
    await until(lambda: not pathlib.Path(f"/proc/{pid}").exists())


async def test_no_signal_reaches_a_process_with_the_number_of_a_worker_that_is_gone(
    hosts: Hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    def send(*message: object) -> None:
        raise LinkBrokenError("closed")

    hosted = await hosts.start(SAME)
    worker = hosted.worker.worker
    assert worker is not None
    monkeypatch.setattr(worker.links[0], "send", send)
    worker.instances.send(0, CLOSE, b"{}")
    os.kill(worker.pid, signal.SIGKILL)
    await asyncio.wait_for(asyncio.shield(worker.ended), GIVE_UP_S)
    sent: list[Any] = []
    monkeypatch.setattr(os, "kill", lambda *what: sent.append(what))
    monkeypatch.setattr(signal, "pidfd_send_signal", lambda *what: sent.append(what))
    worker.kill("again")
    worker.dump_and_kill("again")
    assert sent == []


async def test_a_process_that_cannot_be_watched_is_ended_and_forgotten(
    hosts: Hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []

    def pidfd_open(pid: int) -> int:
        made.append(pid)
        raise OSError(errno.EMFILE, "injected")

    monkeypatch.setattr(os, "pidfd_open", pidfd_open)
    hosted = hosts.make(SAME)
    with pytest.raises(InferenceError, match="could be started"):
        await hosted.worker.start()
    assert made
    for pid in made:
        assert not exists(pid)
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
        assert pid not in ORPHAN_REAPER


async def test_a_start_that_is_cancelled_twice_still_waits_for_the_end_of_its_worker(
    hosts: Hosts,
) -> None:
    hosted = hosts.make(
        """
        def initialize(self, args):
            time.sleep(60)
        """
    )
    starting = asyncio.ensure_future(hosted.worker.start())
    await until(lambda: hosted.worker.pid)
    pid = hosted.worker.pid
    worker = hosted.worker.worker
    assert worker is not None
    for _ in range(2):
        starting.cancel()
        await asyncio.sleep(0)
    await asyncio.wait({starting}, timeout=GIVE_UP_S)
    assert starting.cancelled()
    assert "no longer needed" in await asyncio.wait_for(worker.ended, GIVE_UP_S)
    await until(lambda: hosted.worker.pid == 0)
    assert not exists(pid)


async def test_what_a_model_registers_for_the_end_runs_at_unload(
    hosts: Hosts, tmp_path: pathlib.Path
) -> None:
    hosted = await hosts.start(
        """
        def initialize(self, args):
            import atexit, weakref
            folder = args["model_repository"]
            atexit.register(print, "one", flush=True)
            atexit.register(lambda: 1 / 0)
            atexit.register(open, folder + "/at exit", "w")
            weakref.finalize(np.zeros, open, folder + "/finalized", "w")

        def execute(self, requests):
            return same(requests)
        """
    )
    await asyncio.wait_for(hosted.host.close(), GIVE_UP_S)
    assert (tmp_path / "at exit").exists()
    assert (tmp_path / "finalized").exists()


def run_main(code: str) -> "subprocess.CompletedProcess[str]":
    """The worker's main module in a process of its own."""
    folder = pathlib.Path(main.__file__).parent
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=GIVE_UP_S,
    )


def test_what_a_model_registers_for_the_end_does_not_keep_its_process() -> None:
    done = run_main(
        "import atexit, threading, main; main._EXIT_S = 0.1; atexit.register(threading.Event().wait); main._end(3)"
    )
    assert done.returncode == 3


def test_a_worker_in_a_free_threaded_build_says_so() -> None:
    arguments = "--model m --version 1 --instance m_0 --data-fd 0 --control-fd 1 --parent"
    done = run_main(
        "import os, socket, sys, main; sys.abiflags = 't'; a, b = socket.socketpair(); "
        f"sys.argv = ['main'] + '{arguments}'.split() + [str(os.getppid())]; "
        "sys.argv[8], sys.argv[10] = str(os.dup(a.fileno())), str(os.dup(b.fileno())); main.main()"
    )
    assert done.returncode == 1
    assert "is a free-threaded build, in which models are not supported" in done.stderr
