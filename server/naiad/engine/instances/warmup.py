"""Makes the warmup samples of a model version: a request for each, of zeros, of random values, or of what a file of the model's folder has."""

import math
import pathlib
import typing

import numpy as np

from naiad.config.checks.warmup import FOLDER
from naiad.config.model_config import ModelConfig, WarmupInput, WarmupSample
from naiad.core import datatypes
from naiad.core.request import LATEST, InferRequest
from naiad.core.tensor import Tensor, object_array, unpack
from naiad.engine.validation import RequestValidator
from naiad.errors import invalid
from naiad.hosts.warmup import WarmupRequest
from naiad.repository.plan import VersionPlan

Array = np.ndarray[typing.Any, typing.Any]

RANDOM_INTEGERS = 128
"""Random integers are below it, and at least 0: every integer type holds them, and most vocabularies."""


def make_samples(plan: VersionPlan) -> list[WarmupRequest]:
    """The samples of a version; blocking, for it reads files.

    Raises:
        InferenceError: a file cannot be read, or is too short; names the sample and the input.
    """
    validator = RequestValidator(plan.config)
    return [_request(sample, plan, validator) for sample in plan.config.warmup]


def _request(sample: WarmupSample, plan: VersionPlan, validator: RequestValidator) -> WarmupRequest:
    config = plan.config
    request = InferRequest(
        model_name=config.name,
        model_version=LATEST,
        id="",
        inputs=[_tensor(given, sample, config, plan.model_dir) for given in sample.inputs],
        requested_outputs=[],
        parameters={},
    )
    if validator.has_reshape:
        request = validator.reshaped(request)
    return WarmupRequest(sample.name, sample.batch_size, sample.count, request)


def _tensor(
    given: WarmupInput, sample: WarmupSample, config: ModelConfig, model_dir: pathlib.Path
) -> Tensor:
    # An input of the sequence batcher, which is not among these, has a batch dimension too.
    batched = config.max_batch_size > 0 and not any(
        spec.name == given.name and spec.is_shape_tensor for spec in config.inputs
    )
    shape = (1, *given.dims) if batched else given.dims
    if given.file:
        try:
            values = _from_file(given, model_dir / FOLDER / given.file)
        except (OSError, ValueError) as error:
            raise invalid(
                f"warmup sample '{sample.name}', input '{given.name}': {given.file}: {error}"
            ) from error
    else:
        values = _made(given)
    return Tensor(given.name, given.datatype, shape, values.reshape(shape))


def _from_file(given: WarmupInput, path: pathlib.Path) -> Array:
    """The values of a file. The config's checks have looked at it; it may have changed since.

    Raises:
        OSError: it cannot be read.
        ValueError: it is too short.
    """
    count, datatype = math.prod(given.dims), given.datatype
    body = path.read_bytes()
    if datatype is datatypes.BYTES:
        elements = unpack(np.frombuffer(body, np.uint8))
        if elements.size != count:
            raise ValueError(f"it has {elements.size} elements, expected {count}")
        return elements
    needed = count * datatype.size
    if len(body) < needed:
        raise ValueError(
            f"warmup setting expects {needed} bytes, but the data only has {len(body)} bytes"
        )
    return np.frombuffer(body, datatype.dtype, count)


def _made(given: WarmupInput) -> Array:
    count, datatype = math.prod(given.dims), given.datatype
    if datatype is datatypes.BYTES:
        return object_array([b""] * count)
    if not given.random:
        return np.zeros(count, datatype.dtype)
    generator = np.random.default_rng()
    match datatype.kind:
        case datatypes.Kind.FLOAT:
            return generator.random(count, np.float32).astype(datatype.dtype)
        case datatypes.Kind.BOOL:
            return generator.integers(2, size=count).astype(datatype.dtype)
        case _:
            return generator.integers(RANDOM_INTEGERS, size=count).astype(datatype.dtype)
