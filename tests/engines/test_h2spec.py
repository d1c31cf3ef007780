"""h2spec, the ecosystem's test of HTTP/2 servers (RFC 9113 and RFC 7541), against the native gRPC port: every case, none left out."""

import pathlib
import re
import subprocess

import pytest

from tests.reference.process import ServerProcess, naiad_program
from tests.toolchain import programs

_RESULT = re.compile(r"(\d+) tests, (\d+) passed, (\d+) skipped, (\d+) failed")


@pytest.mark.timeout(600)
def test_every_case_passes(tmp_path: pathlib.Path) -> None:
    h2spec = programs.find(["h2spec"])["h2spec"]
    folder = tmp_path / "models"
    folder.mkdir()
    log = tmp_path / "server.log"
    options = ("--grpc-engine=native",)
    with ServerProcess(naiad_program(), [folder], log=log, options=options) as server:
        host, port = server.grpc.split(":")
        run = subprocess.run(
            [h2spec, "-h", host, "-p", port, "--strict", "--timeout", "10"],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
    found = _RESULT.search(run.stdout)
    assert found is not None, run.stdout + run.stderr
    total, passed, skipped, failed = map(int, found.groups())
    assert (skipped, failed) == (0, 0), run.stdout
    assert passed == total > 140
