"""The operator's benchmark ends what it started, however it is ended."""

import os
import pathlib
import signal
import subprocess
import sys

from tests.apiserver.client import until

_ROOT = pathlib.Path(__file__).parents[3]


def started_in(folder: pathlib.Path) -> list[str]:
    """The command lines of all processes that name a folder."""
    found = []
    for file in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = file.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue  # it has ended
        if str(folder) in line:
            found.append(line)
    return found


def test_a_sigterm_ends_every_program_that_it_started(tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "scratch"
    folder.mkdir()
    environment = {
        **os.environ,
        "TMPDIR": str(folder),
        "PYTHONPATH": os.pathsep.join((str(_ROOT / "server"), str(_ROOT / "operator"), str(_ROOT))),
    }
    command = [sys.executable, "-m", "benchmarks.operator.run", "--sizes=3"]
    with subprocess.Popen(command, cwd=_ROOT, env=environment) as benchmark:
        try:
            until(
                "the operator",
                lambda: [line for line in started_in(folder) if "naiad_operator" in line],
                seconds=120,
            )
            benchmark.send_signal(signal.SIGTERM)
            assert benchmark.wait(40) == 128 + signal.SIGTERM
        finally:
            benchmark.kill()
    assert started_in(folder) == []
