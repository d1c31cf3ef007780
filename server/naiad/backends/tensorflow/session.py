"""Makes TensorFlow's sessions. Every call into TensorFlow that can fail at load is here; importing this imports TensorFlow.

A SavedModel is loaded by the loader of sessions (`tf.compat.v1.saved_model.loader`): `tf.saved_model.load` makes Python objects of the model, and fails on
models that Keras saved with their optimizer.
"""

import collections.abc
import contextlib
import os
import pathlib
from typing import Any

# Warnings alone, unless the user asks for more: else each start of a session writes a page about the processor.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")

import tensorflow as tf

from naiad.backends import reasons
from naiad.backends.model_files.wire_format import ModelFileError
from naiad.backends.ragged import batch_input_specs
from naiad.backends.tensorflow import init_ops
from naiad.backends.tensorflow.plugin import GRAPH_DEF, PLUGIN
from naiad.backends.tensorflow.saved_model import DEFAULT_TAG, read_nodes, read_signature
from naiad.backends.tensorflow.settings import Settings
from naiad.config import sequence_tensors
from naiad.config.model_config import InstanceKind, ModelConfig
from naiad.errors import InferenceError, internal, invalid, unavailable

v1 = tf.compat.v1
tf.get_logger().setLevel("ERROR")  # it says of each loader that it is deprecated

Run = collections.abc.Callable[..., list[Any]]

OPERATORS = (
    "name the library that has it in model_operations { op_library_filename }, or export the model without it; TensorFlow "
    f"{tf.__version__} has no operators of tf.contrib"
)
"""What helps a model with an operator that TensorFlow does not know."""


class ModelSession:
    """A session of a model: a function of its inputs, in the order of `input_names`, to its outputs in that of `output_names`. Any thread may call it.

    Attributes:
        scalars: the inputs that are one value without a dimension.
    """

    def __init__(
        self,
        session: Any,
        run: Run,
        *,
        input_names: list[str],
        scalars: list[str],
        output_names: list[str],
    ) -> None:
        self._session = session
        self.run = run
        self.input_names = input_names
        self.scalars = scalars
        self.output_names = output_names

    def close(self) -> None:
        """Release what it holds."""
        self._session.close()


def make_session(
    version_dir: pathlib.Path,
    config: ModelConfig,
    settings: Settings,
    *,
    kind: InstanceKind,
    device_id: int,
) -> ModelSession:
    """Make a session of a version's model.

    Raises:
        InferenceError: UNAVAILABLE: there is no such file; INTERNAL: it is not a whole model, or TensorFlow refuses it, with TensorFlow's reason.
    """
    path = PLUGIN.model_file(version_dir, config.default_model_filename)
    if not path.exists():
        raise unavailable(
            f"unable to find '{path}' for model instance of '{config.name}': put the model there, or name it in default_model_filename"
        )
    for library in config.op_library_filenames:
        _register(library, config.name)
    graph = tf.Graph()
    session = v1.Session(graph=graph, config=_config_of(settings, kind=kind, device_id=device_id))
    try:
        with graph.as_default(), graph.device(_device(kind, device_id)):
            load = _load_graph_def if config.platform == GRAPH_DEF else _load_saved_model
            feeds, fetches = load(session, path, config, settings)
        _initialise(session, init_ops.read(version_dir, settings.init_ops_file, config.name))
        fed = {name: graph.get_tensor_by_name(tensor) for name, tensor in feeds.items()}
        run = session.make_callable(
            [graph.get_tensor_by_name(name) for name in fetches.values()],
            feed_list=list(fed.values()),
        )
    except InferenceError:
        session.close()
        raise
    except ModelFileError as error:
        session.close()
        raise internal(f"unable to load model '{config.name}', {error}") from error
    except Exception as error:
        session.close()
        raise internal(
            f"unable to load model '{config.name}': {reasons.explained(error, operators=OPERATORS)}"
        ) from error
    return ModelSession(
        session,
        run,
        input_names=list(feeds),
        scalars=[name for name, tensor in fed.items() if tensor.shape.rank == 0],
        output_names=list(fetches),
    )


def _load_saved_model(
    session: Any, path: pathlib.Path, config: ModelConfig, settings: Settings
) -> tuple[dict[str, str], dict[str, str]]:
    """Load it into the session; the tensor in the graph of each input and output."""
    signature = read_signature(path, tag=settings.tag, signature=settings.signature)
    v1.saved_model.loader.load(session, sorted(signature.tags) or [DEFAULT_TAG], str(path))
    inputs = _input_names(config)
    outputs = [spec.name for spec in sequence_tensors.model_outputs(config)]
    return (
        {name: signature.inputs_in_graph[name] for name in inputs},
        {name: signature.outputs_in_graph[name] for name in outputs},
    )


def _load_graph_def(
    session: Any, path: pathlib.Path, config: ModelConfig, settings: Settings
) -> tuple[dict[str, str], dict[str, str]]:
    """As `_load_saved_model`."""
    read_nodes(path, model=config.name)
    definition = v1.GraphDef()
    definition.ParseFromString(path.read_bytes())
    for node in definition.node:
        if "CPU" not in node.device.upper():
            node.device = ""
    tf.import_graph_def(definition, name="")

    def tensors(names: list[str]) -> dict[str, str]:
        return {name: name if ":" in name else f"{name}:0" for name in names}

    return (
        tensors(_input_names(config)),
        tensors([spec.name for spec in sequence_tensors.model_outputs(config)]),
    )


def _input_names(config: ModelConfig) -> list[str]:
    """The inputs that the model is given: with those that the sequence batcher and batch_input add."""
    specs = (*sequence_tensors.model_inputs(config), *batch_input_specs(config))
    return [spec.name for spec in specs]


def _config_of(settings: Settings, *, kind: InstanceKind, device_id: int) -> Any:
    """A ConfigProto."""
    config = v1.ConfigProto(
        intra_op_parallelism_threads=settings.intra_op_threads,
        inter_op_parallelism_threads=settings.inter_op_threads,
        use_per_session_threads=settings.own_threads,
        allow_soft_placement=settings.soft_placement,
    )
    config.gpu_options.allow_growth = True
    if kind is InstanceKind.CPU:
        config.device_count["GPU"] = 0
    if settings.xla:
        levels = v1.OptimizerOptions
        config.graph_options.optimizer_options.global_jit_level = getattr(levels, settings.xla)
    if settings.mixed_precision:
        rewriter = config.graph_options.rewrite_options
        rewriter.auto_mixed_precision = 1  # RewriterConfig.ON
    return config


def _device(kind: InstanceKind, device_id: int) -> str | None:
    """The device of what the graph does not place itself; None to leave it to TensorFlow."""
    if kind is InstanceKind.MODEL:
        return None
    return f"/GPU:{device_id}" if kind is InstanceKind.GPU else "/CPU:0"


def _register(library: str, model: str) -> None:
    try:
        tf.load_op_library(library)
    except Exception as error:
        raise invalid(
            f"unable to load model '{model}': custom operator library '{library}' (model_operations, op_library_filename): {reasons.said(error)}"
        ) from error


def _initialise(session: Any, operations: list[str]) -> None:
    """Run operations."""
    for operation in operations:
        with contextlib.suppress(ValueError):
            session.run(session.graph.get_operation_by_name(operation))
            continue
        session.run(operation)
