"""Completion of a config from its pipeline: without DALI from a serialised one, and by a process that runs the code of the model from `dali.py`."""

import collections.abc
import pathlib
from typing import Any

from naiad.backends.dali import agreement
from naiad.backends.dali.plugin import CODE, PLUGIN
from naiad.backends.dali.serialized import Pipeline, read
from naiad.backends.model_files.wire_format import ModelFileError
from naiad.config.backend_type import CompletionError
from naiad.config.pbtxt import parser
from naiad.core.messages import model_config_pb2
from naiad.errors import ErrorCode


def complete(
    message: Any, version_dir: pathlib.Path, options: collections.abc.Mapping[str, str]
) -> None:
    """Fill in what a serialised pipeline knows; of one in Python, that batches are made.

    Raises:
        CompletionError: the file cannot be read, or is not a pipeline.
    """
    path = PLUGIN.model_file(version_dir, message.default_model_filename)
    if path.suffix == CODE:
        agreement.batch_by_default(message)
        return
    try:
        pipeline = read(path)
    except ModelFileError as error:
        raise CompletionError(
            f"unable to load model '{message.name}': {error}", code=ErrorCode.UNAVAILABLE
        ) from error
    complete_from(message, version_dir, pipeline)


def complete_from(message: Any, version_dir: pathlib.Path, pipeline: Pipeline) -> None:
    """Fill in what this pipeline, of a version of the model, knows."""
    batched = message.max_batch_size > 0 or not _says_batch_size(version_dir.parent)
    agreement.complete(message, pipeline, batched=batched, data_types=model_config_pb2.DataType)


def _says_batch_size(model_dir: pathlib.Path) -> bool:
    """Whether config.pbtxt writes max_batch_size, were it 0: a message cannot tell that from one that is left out."""
    path = model_dir / "config.pbtxt"
    return path.is_file() and ("max_batch_size",) in parser.read(path).positions
