"""The tests of the port run over both engines, except those that are about one of them."""

import collections.abc
import pathlib

import pytest

from tests.server.protocol.grpc import serving

BOTH = ("test_aio.py", "test_aio_port.py", "test_reflection.py")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Each test of `BOTH` twice."""
    file = pathlib.Path(metafunc.definition.path).name
    chosen = [
        mark
        for mark in metafunc.definition.iter_markers("parametrize")
        if mark.args[0] == "grpc_engine"
    ]
    if file in BOTH and not chosen:
        metafunc.parametrize("grpc_engine", sorted(serving.ENGINES), indirect=True)


@pytest.fixture(autouse=True)
def grpc_engine(request: pytest.FixtureRequest) -> collections.abc.Iterator[str]:
    """The engine that `serving` takes."""
    serving.ENGINE[0] = getattr(request, "param", "grpcio")
    yield serving.ENGINE[0]
    serving.ENGINE[0] = "grpcio"
