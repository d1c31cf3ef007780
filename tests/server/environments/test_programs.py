"""Programs that make environments: heard, and ended with the server."""

import concurrent.futures
import os
import pathlib
import sys
import threading

import pytest

from naiad.environments.programs import ClosedError, FailedError, Programs

ROOT = pathlib.Path("/")


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def test_lines_are_reported_as_they_come() -> None:
    lines: list[str] = []
    code = "import sys; print('one'); print('two', file=sys.stderr, flush=True)"
    Programs(threading.Event()).run(
        python(code),
        environ=os.environ | {"PYTHONUNBUFFERED": "1"},
        folder=ROOT,
        on_line=lines.append,
    )
    assert lines == ["one", "two"]


def test_a_failure_carries_the_last_lines_and_the_status() -> None:
    with pytest.raises(FailedError) as caught:
        Programs(threading.Event()).run(
            python("import sys; print('why'); sys.exit(3)"), environ=os.environ, folder=ROOT
        )
    assert (caught.value.status, caught.value.output) == (3, ["why"])


def test_close_ends_programs_and_their_children() -> None:
    closing, started = threading.Event(), threading.Event()
    programs = Programs(closing)
    child = python("import time; print('up', flush=True); time.sleep(600)")
    code = f"import subprocess; subprocess.run({child!r})"
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        running = pool.submit(
            programs.run,
            python(code),
            environ=os.environ,
            folder=ROOT,
            on_line=lambda line: started.set(),
        )
        assert started.wait(20)
        closing.set()
        programs.close()
        with pytest.raises(ClosedError):
            running.result(60)


def test_a_program_that_starts_after_close_is_ended_at_once() -> None:
    closing = threading.Event()
    closing.set()
    with pytest.raises(ClosedError):
        Programs(closing).run(
            python("import time; time.sleep(600)"), environ=os.environ, folder=ROOT
        )


@pytest.mark.slow
def test_a_program_that_takes_too_long_is_ended_with_an_error() -> None:
    with pytest.raises(FailedError) as caught:
        Programs(threading.Event()).run(
            python("import time; print('begun', flush=True); time.sleep(600)"),
            environ=os.environ,
            folder=ROOT,
            on_line=lambda line: None,
            limit_s=1,
        )
    assert caught.value.output[-1] == "error: it took longer than 1 s and was ended"
