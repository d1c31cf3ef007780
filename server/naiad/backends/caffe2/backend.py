"""Caffe2's NetDefs: no release of Caffe2 runs in today's Python, so a pair of nets is translated to an ONNX graph when it is loaded, which onnxruntime runs.

The graph is a file without a name, which only this process sees: sessions of a GPU are made of it later, and it is gone with the process.
"""

import pathlib
import tempfile

from typing_extensions import override

from naiad.backends.backend import ModelSource
from naiad.backends.caffe2 import onnx_file
from naiad.backends.caffe2.described import input_types
from naiad.backends.caffe2.net import NetDefError
from naiad.backends.caffe2.plugin import PLUGIN
from naiad.backends.caffe2.translation import read_nets, translate
from naiad.backends.instance import Instance, InstanceSpec, LoadedModel
from naiad.backends.onnxruntime.backend import OnnxModel, OnnxRuntimeBackend
from naiad.backends.plugin import BackendContext
from naiad.config.model_config import InstanceKind
from naiad.errors import ErrorCode, InferenceError, unavailable


def make(context: BackendContext) -> "Caffe2Backend":
    """Make the backend."""
    return Caffe2Backend(OnnxRuntimeBackend(clock=context.clock))


class Caffe2Backend:
    """The backend `caffe2`.

    Args:
        runtime: runs what nets are translated to.
    """

    def __init__(self, runtime: OnnxRuntimeBackend) -> None:
        self._runtime = runtime

    def load(self, source: ModelSource) -> "Caffe2Model":
        """Load a model version."""
        return Caffe2Model(source, self._runtime)

    def close(self) -> None:
        """See `Closes`."""
        self._runtime.close()


class Caffe2Model(LoadedModel):
    """A model version: its nets, translated.

    Raises:
        InferenceError: as `Backend.load`.
    """

    def __init__(self, source: ModelSource, runtime: OnnxRuntimeBackend) -> None:
        config = source.config
        self._model = config.name
        self._path = PLUGIN.model_file(source.version_dir, config.default_model_filename)
        self._file = tempfile.TemporaryFile(prefix="naiad-caffe2-")  # noqa: SIM115 - sessions are made of it later
        try:
            self._translate(source)
            self._graph = pathlib.Path(f"/proc/self/fd/{self._file.fileno()}")
            self._loaded = OnnxModel(source, runtime, self._graph)
        except InferenceError as error:
            self._file.close()
            raise self._explained(error) from error
        except BaseException:
            self._file.close()
            raise
        if all(group.kind is not InstanceKind.GPU for group in config.instance_groups):
            self._file.close()  # the one session is made

    @override
    def make_instance(self, spec: InstanceSpec) -> Instance:
        """Make an instance; on a GPU that makes sessions."""
        try:
            return self._loaded.make_instance(spec)
        except InferenceError as error:
            raise self._explained(error) from error

    @override
    def close(self) -> None:
        self._loaded.close()
        self._file.close()

    def _translate(self, source: ModelSource) -> None:
        types, refused = input_types(source.config.message)
        for each in refused:
            raise unavailable(f"unable to load model '{self._model}': {each.text}")
        try:
            translation = translate(read_nets(self._path), types)
        except NetDefError as error:
            raise unavailable(f"unable to load model '{self._model}': {error}") from error
        try:
            onnx_file.write(translation.graph, self._file)
            self._file.flush()
        except OSError as error:
            raise unavailable(
                f"unable to load model '{self._model}': its translation cannot be written to {tempfile.gettempdir()}: {error}"
            ) from error

    def _explained(self, error: InferenceError) -> InferenceError:
        """An error of onnxruntime itself is one of a file without a name: the message names those that it was made of."""
        if error.code is not ErrorCode.INTERNAL:
            return error
        reason = error.message.replace(
            f" (loading '{self._graph.name}' of model '{self._model}')", ""
        ).replace(str(self._graph), "the translation")
        return InferenceError(
            error.code,
            f"unable to load model '{self._model}': onnxruntime refuses what '{self._path}' was translated to: {reason}",
        )
