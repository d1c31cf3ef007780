"""Open descriptors: a server takes what the system allows, not what a shell gives."""

import collections.abc
import resource

import pytest

from naiad.serve import descriptors


@pytest.fixture
def limits() -> collections.abc.Iterator[tuple[int, int]]:
    """Soft and hard limit, put back afterwards."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield before
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_the_soft_limit_becomes_the_hard_one(limits: tuple[int, int]) -> None:
    _, hard = limits
    resource.setrlimit(resource.RLIMIT_NOFILE, (512, hard))
    assert descriptors.raise_limit() == hard
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
        assert descriptors.raise_limit() == 512
