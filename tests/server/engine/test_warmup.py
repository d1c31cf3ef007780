"""The requests of warmup samples: their values, shapes and datatypes."""

import pathlib

import msgspec
import numpy as np
import pytest

from naiad.config.model_config import ModelConfig, WarmupInput, WarmupSample
from naiad.core import datatypes
from naiad.core.datatypes import DataType
from naiad.engine.instances.warmup import RANDOM_INTEGERS, make_samples
from naiad.errors import InferenceError
from naiad.hosts.warmup import WarmupRequest
from naiad.repository.plan import VersionPlan
from tests.server.backends.configs import model_config, spec


def config(given: WarmupInput, dims: tuple[int, ...] = (-1,), **more: object) -> ModelConfig:
    sample = WarmupSample(name="s", batch_size=2, count=3, inputs=(given,))
    inputs = [spec("X", given.datatype, dims, **more)]
    return model_config(inputs=inputs, outputs=[], warmup=(sample,))


def made(of: ModelConfig, folder: pathlib.Path = pathlib.Path()) -> WarmupRequest:
    (sample,) = make_samples(VersionPlan(config=of, version=1, model_dir=folder))
    return sample


@pytest.mark.parametrize("datatype", datatypes.ALL, ids=lambda each: each.name)
@pytest.mark.parametrize("random", [False, True])
def test_zeros_and_random_values_of_every_datatype(datatype: DataType, *, random: bool) -> None:
    sample = made(config(WarmupInput(name="X", datatype=datatype, dims=(50,), random=random)))
    assert (sample.name, sample.batch_size, sample.count) == ("s", 2, 3)
    (tensor,) = sample.request.inputs
    assert (tensor.shape, tensor.array.shape) == ((1, 50), (1, 50))
    assert tensor.array.dtype == datatype.dtype
    if datatype is datatypes.BYTES:
        assert set(tensor.array.flat) == {b""}
        return
    values = tensor.array.astype(np.float64)
    assert values.any() == random
    assert (values >= 0).all()
    assert (values < RANDOM_INTEGERS).all()


def test_values_of_a_file(tmp_path: pathlib.Path) -> None:
    (tmp_path / "warmup").mkdir()
    (tmp_path / "warmup/x").write_bytes(np.array([1, 2, 3], np.int16).tobytes() + b"more")
    given = WarmupInput(name="X", datatype=datatypes.INT16, dims=(3,), file="x")
    assert made(config(given), tmp_path).request.inputs[0].array.tolist() == [[1, 2, 3]]


def test_strings_of_a_file(tmp_path: pathlib.Path) -> None:
    (tmp_path / "warmup").mkdir()
    (tmp_path / "warmup/x").write_bytes(b"\1\0\0\0a\2\0\0\0bc")
    given = WarmupInput(name="X", datatype=datatypes.BYTES, dims=(2,), file="x")
    assert made(config(given), tmp_path).request.inputs[0].array.tolist() == [[b"a", b"bc"]]


def test_a_file_that_has_become_too_short_names_sample_and_input(tmp_path: pathlib.Path) -> None:
    (tmp_path / "warmup").mkdir()
    (tmp_path / "warmup/x").write_bytes(b"12")
    given = WarmupInput(name="X", datatype=datatypes.INT16, dims=(3,), file="x")
    with pytest.raises(InferenceError, match="warmup sample 's', input 'X': x: warmup setting"):
        made(config(given), tmp_path)
    (tmp_path / "warmup/x").unlink()
    with pytest.raises(InferenceError, match=r"warmup sample 's', input 'X': x: .*No such file"):
        made(config(given), tmp_path)


def test_the_backend_sees_the_shape_of_reshape() -> None:
    given = WarmupInput(name="X", datatype=datatypes.FP32, dims=(6,))
    sample = made(config(given, (6,), reshape=(2, 3)))
    assert sample.request.inputs[0].array.shape == (1, 2, 3)


def test_an_input_of_the_sequence_batcher_has_a_batch_dimension() -> None:
    given = WarmupInput(name="START", datatype=datatypes.INT32, dims=(1,))
    assert made(msgspec.structs.replace(config(given), inputs=())).request.inputs[0].shape == (
        1,
        1,
    )
