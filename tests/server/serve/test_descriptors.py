"""Open descriptors: a server takes what the system allows, not what a shell gives."""

import collections.abc
import pathlib
import resource
import subprocess
import sys

import pytest

from naiad.serve import command


@pytest.fixture
def limits() -> collections.abc.Iterator[tuple[int, int]]:
    """Soft and hard limit, put back afterwards."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield before
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_the_soft_limit_becomes_the_hard_one(limits: tuple[int, int]) -> None:
    _, hard = limits
    resource.setrlimit(resource.RLIMIT_NOFILE, (512, hard))
    assert command.raise_descriptor_limit() == hard
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard)


def test_a_system_that_refuses_keeps_its_limit(
    limits: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, hard = limits
    resource.setrlimit(resource.RLIMIT_NOFILE, (512, hard))

    def refuse(which: int, wanted: tuple[int, int]) -> None:
        raise ValueError(which, wanted)

    with monkeypatch.context() as patched:
        patched.setattr(resource, "setrlimit", refuse)
        assert command.raise_descriptor_limit() == 512


@pytest.mark.slow
def test_a_server_with_too_few_descriptors_does_not_start_and_explains_why(
    tmp_path: pathlib.Path,
) -> None:
    for limit in (20, 63):
        serve = f'ulimit -n {limit}; exec "$0" -m naiad serve --model-repository="$1"'
        ended = subprocess.run(
            ["sh", "-c", serve, sys.executable, str(tmp_path)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert ended.returncode == 1
        (line,) = ended.stderr.splitlines()
        assert f"at most {limit} files" in line
        assert "ulimit -Hn" in line
