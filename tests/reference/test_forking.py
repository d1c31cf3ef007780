"""A fork of a program is what a program of its own is: arguments, variables, streams, exit status, signals."""

import dataclasses
import os
import pathlib
import signal
import subprocess
import urllib.error
import urllib.request

import pytest

from tests.reference.forking import Fork, switched_off
from tests.reference.process import ServerFailedError, ServerProcess, naiad_program

_EXPLICIT = "--model-control-mode=explicit"


@pytest.fixture
def models(tmp_path: pathlib.Path) -> pathlib.Path:
    folder = tmp_path / "models"
    folder.mkdir()
    return folder


def server(models: pathlib.Path, *options: str) -> ServerProcess:
    return ServerProcess(naiad_program(), [models], log=models.parent / "log", options=options)


def test_it_serves_and_ends_with_0(models: pathlib.Path) -> None:
    with server(models, _EXPLICIT) as running:
        process = running.process
        assert isinstance(process, Fork)
        assert process.poll() is None
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.01)
        with urllib.request.urlopen(f"http://{running.http}/v2/health/live") as reply:
            assert reply.status == 200
        assert process.pid != os.getpid()
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == process.poll() == process.returncode == 0
        assert '"stopped"' in running.output()
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(f"http://{running.http}/v2/health/live")


def test_a_start_that_fails_and_a_kill_show_in_the_status(models: pathlib.Path) -> None:
    failing = server(models / "none")
    with pytest.raises(ServerFailedError, match="naiad exited 1"):
        failing.start().wait()
    with server(models, _EXPLICIT) as running:
        assert running.process is not None
        running.process.kill()
        assert running.process.wait(60) == -signal.SIGKILL


def test_it_has_the_streams_folder_and_signals_of_a_program_of_its_own(
    models: pathlib.Path,
) -> None:
    def shown(running: ServerProcess) -> tuple[object, ...]:
        assert running.process is not None
        of = pathlib.Path(f"/proc/{running.process.pid}")
        streams = [(of / "fd" / str(number)).readlink() for number in range(3)]
        ignored = [
            line for line in (of / "status").read_text().splitlines() if line.startswith("Sig")
        ]
        return streams, (of / "cwd").readlink(), ignored[-2:]

    with server(models, _EXPLICIT) as forked, switched_off(), server(models, _EXPLICIT) as whole:
        assert isinstance(forked.process, Fork)
        assert not isinstance(whole.process, Fork)
        assert shown(forked) == shown(whole)


def test_a_program_made_in_another_test_is_forked(
    models: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as another:
        another.setenv("PYTEST_CURRENT_TEST", "another")
        program = naiad_program()
    log = models.parent / "log"
    with ServerProcess(program, [models], log=log, options=[_EXPLICIT]) as running:
        assert isinstance(running.process, Fork)


@pytest.mark.parametrize(
    ("name", "value"), [("NAIAD_CUDART", "/none/libcudart.so"), ("CUDA_DEVICE_ORDER", "PCI_BUS_ID")]
)
def test_a_program_is_forked_after_a_test_that_leaves_a_variable_behind(
    models: pathlib.Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    with server(models, _EXPLICIT) as running:
        assert isinstance(running.process, Fork)


def test_a_program_with_options_of_its_own_is_forked_with_them(models: pathlib.Path) -> None:
    ours = naiad_program()
    program = dataclasses.replace(ours, command=(*ours.command, "--no-such-option"))
    running = ServerProcess(program, [models], log=models.parent / "log", options=[_EXPLICIT])
    assert isinstance(running.start().process, Fork)
    with pytest.raises(ServerFailedError, match="unrecognized option '--no-such-option'"):
        running.wait()


def test_a_program_that_another_starts_is_not_forked(models: pathlib.Path) -> None:
    ours = naiad_program()
    program = dataclasses.replace(ours, command=("env", *ours.command))
    running = ServerProcess(program, [models], log=models.parent / "log", options=[_EXPLICIT])
    with running:
        assert not isinstance(running.process, Fork)


def test_a_program_with_other_variables_is_not_forked(models: pathlib.Path) -> None:
    program = naiad_program()
    other = type(program)("naiad", program.command, {**program.environ, "OMP_NUM_THREADS": "1"})
    running = ServerProcess(other, [models], log=models.parent / "log", options=[_EXPLICIT])
    with running:
        assert not isinstance(running.process, Fork)


def test_a_fork_finds_packages_and_a_cache_where_its_own_variables_say(
    models: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    site = tmp_path / "site"
    site.mkdir()
    (site / "word.py").write_text(
        "import os\nWORD = 'found, cache in ' + os.environ['XDG_CACHE_HOME']\n"
    )
    (models / "m" / "1").mkdir(parents=True)
    (models / "m" / "1" / "model.py").write_text("import word\nraise RuntimeError(word.WORD)\n")
    (models / "m" / "config.pbtxt").write_text(
        'backend: "python"\nparameters { key: "naiad.host" value { string_value: "thread" } }\n'
    )
    ours = naiad_program()
    path = os.pathsep.join((str(site), ours.environ["PYTHONPATH"]))
    program = dataclasses.replace(
        ours, environ={**ours.environ, "PYTHONPATH": path, "XDG_CACHE_HOME": "/a/cache"}
    )
    log = tmp_path / "log"
    with ServerProcess(program, [models], log=log, options=["--exit-on-error=false"]) as running:
        assert isinstance(running.process, Fork)
        assert "found, cache in /a/cache" in running.output()
    with server(models, "--exit-on-error=false") as running:
        assert "No module named 'word'" in running.output()
