"""For tests about the process itself, its start, its signals, its memory: each server is started as users start it."""

from collections.abc import Iterator

import pytest

from tests.reference.forking import switched_off


@pytest.fixture
def whole_interpreter() -> Iterator[None]:
    """Servers that are programs of their own."""
    with switched_off():
        yield
