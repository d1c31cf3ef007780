"""Processes that are started without the interpreter lock: what they have, what they do not have, and how they ended."""

import collections.abc
import json
import os
import signal
import subprocess
import sys
import typing

import pytest

from naiad.core.processes import launch as launching
from naiad.core.processes.launch import PASSED, Child, Launch
from tests.server.hosts.process.workers import open_descriptors

_SHOW = """
import json, os, signal, sys
names = [each for each in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{each}")]
numbers = sorted(int(each) for each in names)
shown = {
    "arguments": sys.argv[1:], "environ": dict(os.environ), "group": os.getpgrp() == os.getpid(), "session": os.getsid(0) == os.getpid(),
    "descriptors": numbers, "passed": [os.read(each, 9).decode() for each in numbers if each > 2 and each < 5],
}
print(json.dumps(shown))
"""


class _Without:
    """The C library without a function, as musl and old releases of glibc are."""

    def __getattr__(self, name: str) -> typing.Any:
        if name == "posix_spawn_file_actions_addclosefrom_np":
            raise AttributeError(name)
        return getattr(launching._c(), name)


@pytest.fixture(params=["current", "without closefrom"])
def _library(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param != "current":
        monkeypatch.setattr(launching, "_quick", _Without)


def _python(code: str, *arguments: str, **more: typing.Any) -> tuple[Child, str]:
    """Run Python code to its end; the process and what it has written."""
    reading, writing = os.pipe()
    environ = more.pop("environ", {})
    try:
        child = Launch(
            [sys.executable, "-S", "-c", code, *arguments], environ, output=writing, **more
        ).start()
    finally:
        os.close(writing)
    with os.fdopen(reading) as output:
        text = output.read()
    assert child.wait(20)
    return child, text


@pytest.mark.usefixtures("_library")
def test_a_process_has_what_it_was_given_and_no_other_descriptor() -> None:
    inherited = os.open("/dev/null", os.O_RDONLY)
    os.set_inheritable(inherited, True)
    pipes = [os.pipe() for _ in range(2)]
    for number, (_, writing) in enumerate(pipes):
        os.write(writing, b"pipe %d" % number)
    try:
        # In this order, so that each has to get the number of another.
        child, text = _python(
            _SHOW, "a", "ä\udcff", environ={"X": "ö", "E": ""}, passed=[reading for reading, _ in pipes]
        )  # fmt: skip
    finally:
        for each in (inherited, *(end for pipe in pipes for end in pipe)):
            os.close(each)
    assert child.returncode == 0, text
    shown = json.loads(text)
    assert shown["passed"] == ["pipe 0", "pipe 1"]
    assert shown["descriptors"] == [0, 1, 2, PASSED, PASSED + 1]
    assert shown["environ"].items() >= {"X": "ö", "E": ""}.items()
    assert shown["arguments"] == ["a", "ä\udcff"]
    assert (shown["group"], shown["session"]) == (True, False)


def test_descriptors_may_have_the_numbers_that_others_get() -> None:
    """A server whose standard streams are closed has others under their numbers."""
    code = f"""
import os, sys
sys.path[:0] = {sys.path!r}
from naiad.core.processes.launch import Launch
kept = os.dup(1)
for each in (0, 1, 2):
    os.close(each)
first, second = os.pipe(), os.pipe()
assert first == (0, 1) and second[0] == 2
os.write(first[1], b"first")
os.write(second[1], b"second")
code = "import os; print(os.read(3, 9).decode(), os.read(4, 9).decode())"
child = Launch([sys.executable, "-c", code], {{}}, output=kept, passed=[second[0], first[0]]).start()
child.wait()
os._exit(child.returncode)
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "second first\n"


def test_a_session_of_its_own() -> None:
    _, text = _python(_SHOW, session=True)
    shown = json.loads(text)
    assert (shown["group"], shown["session"]) == (True, True)


def test_signals_that_python_ignores_have_their_usual_effect() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    child = Launch(["/bin/sh", "-c", "echo x"], {}, output=writing).start()
    os.close(writing)
    assert child.wait(20)
    assert child.returncode in {-signal.SIGPIPE, 128 + signal.SIGPIPE}


@pytest.mark.parametrize(
    ("code", "expected"),
    [("raise SystemExit(7)", 7), ("import os; os.kill(os.getpid(), 9)", -signal.SIGKILL)],
)
def test_how_a_process_ended(code: str, expected: int) -> None:
    child, _ = _python(code)
    assert child.returncode == child.poll() == expected


def test_a_wait_has_an_end() -> None:
    child = Launch(["sleep", "60"], dict(os.environ)).start()
    try:
        assert child.poll() is None
        assert not child.wait(0.01)
    finally:
        os.kill(child.pid, signal.SIGKILL)
    assert child.wait()
    assert child.returncode == -signal.SIGKILL


def test_a_process_that_was_reaped_elsewhere_is_over() -> None:
    child = Launch(["true"], dict(os.environ)).start()
    os.waitpid(child.pid, 0)
    assert child.poll() == 0


def test_what_cannot_be_started_is_an_error_that_names_it() -> None:
    before = open_descriptors()
    with pytest.raises(FileNotFoundError, match="/nowhere/python"):
        Launch(["/nowhere/python"], {}).start()
    with pytest.raises(PermissionError):
        Launch(["/etc/passwd"], {}).start()
    with pytest.raises(OSError, match="Bad file descriptor"):
        Launch(["true"], {}, passed=[1 << 19]).start()
    assert open_descriptors() == before


@pytest.mark.parametrize(("command", "environ"), [(["true", "a\0b"], {}), (["true"], {"A": "b\0"})])
def test_null_bytes_are_refused(
    command: list[str], environ: collections.abc.Mapping[str, str]
) -> None:
    with pytest.raises(ValueError, match="null byte"):
        Launch(command, environ)
