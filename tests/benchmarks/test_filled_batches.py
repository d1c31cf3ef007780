"""The check of filled batches: what it serves is accepted by `naiad check`, and an aim that is missed is named."""

import pathlib

import pytest

from benchmarks.server.filled_batches import KINDS, Measured, missed, write_models
from naiad.backends.catalog import Catalog
from naiad.config.resolving.resolve import resolve


@pytest.mark.parametrize("gpu", [False, True])
def test_the_models_of_the_check_are_valid(tmp_path: pathlib.Path, *, gpu: bool) -> None:
    folders = write_models(tmp_path, (3, 16, 16), gpu=gpu)
    assert list(folders) == list(KINDS)
    for folder in folders.values():
        assert resolve(folder, backends=Catalog(), gpus=(0,)).problems == ()


class Seen(Measured):
    """A kind with a rate."""

    def __init__(self, per_second: float) -> None:
        self.per_second = per_second


def test_each_aim_that_is_missed_is_named() -> None:
    measured: dict[str, Measured] = {
        "one row": Seen(1851), "filled": Seen(4551), "always full": Seen(6711),
    }  # fmt: skip
    assert missed(measured) == []
    measured["filled"] = Seen(4000)
    assert missed(measured) == ["filled batches reach 2.16 of 'one row', the aim is 2.2", "filled batches reach 0.60 of 'always full', the aim is 0.6"]  # fmt: skip
