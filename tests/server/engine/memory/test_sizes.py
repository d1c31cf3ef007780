"""The sizes of models before they are loaded."""

import pathlib
import types
import typing

import pytest

from naiad.config.model_config import InstanceGroup, InstanceKind
from naiad.engine.memory.sizes import HOST, expected, file_bytes
from naiad.repository.plan import VersionPlan


def config(*gpus: int) -> typing.Any:
    kind = InstanceKind.GPU if gpus else InstanceKind.CPU
    group = InstanceGroup(name="g", kind=kind, count=2, gpus=gpus)
    return types.SimpleNamespace(instance_groups=(group,))


def test_the_files_of_a_version_and_those_that_all_versions_share_count(
    tmp_path: pathlib.Path,
) -> None:
    for path, size in (("1/a", 1), ("2/a", 10), ("2/deep/b", 100), ("labels", 1000)):
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(bytes(size))
    plan = VersionPlan(config=config(), version=2, model_dir=tmp_path)
    assert file_bytes(plan) == 1110


@pytest.mark.parametrize(
    ("gpus", "places"),
    [((), {HOST: 1200}), ((1, 0), {("GPU", 0): 1200, ("GPU", 1): 1200})],
)
def test_a_model_is_expected_to_take_a_fifth_more_than_its_files_on_each_device(
    gpus: tuple[int, ...], places: dict[typing.Any, int]
) -> None:
    assert expected(config(*gpus), 1000) == places
