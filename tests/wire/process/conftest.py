"""These tests are about the process: each server is started as users start it."""

from collections.abc import Iterator

import pytest

from tests.reference.forking import switched_off


@pytest.fixture(scope="package", autouse=True)
def _no_forks() -> Iterator[None]:
    with switched_off():
        yield
