"""What an instance runs: a PyTorch model of any format, as a function of tensors by name to results by position."""

import collections.abc
import contextlib
import threading
import typing
from typing import Any

import torch

from naiad.backends import reasons
from naiad.backends.pytorch.settings import Settings
from naiad.errors import invalid


class Program(typing.Protocol):
    """A loaded model, on its device.

    Attributes:
        writes_inputs: it may write to the tensors that it is given.
        graph_fault: why no CUDA graph of it can be captured; "" if that is not known before it is tried.
    """

    writes_inputs: bool
    graph_fault: str

    @property
    def output_index(self) -> collections.abc.Mapping[str, int]:
        """The position of each of the config's outputs in what `run` gives."""

    def run(self, feeds: collections.abc.Mapping[str, Any]) -> collections.abc.Sequence[Any]:
        """Run a batch.

        Args:
            feeds: a tensor, or a list of `str` for BYTES, for each input of the config.

        Raises:
            Exception: what torch raises.
        """

    def buffers(self) -> list[Any]:
        """The tensors in which it may keep something from run to run."""


OPERATORS = (
    "name the library that has it in model_operations { op_library_filename }, or save the model with a torch that fits this one, "
    f"{torch.__version__}"
)
"""What helps a model with an operator that torch does not know."""

_threads_lock = threading.Lock()
_threads_set: set[str] = set()


def set_threads(settings: Settings) -> None:
    """Set the numbers of torch's threads in this process, each once: the first model that asks decides (row 16.15)."""
    with _threads_lock:
        if settings.intra_op_threads is not None and "intra" not in _threads_set:
            _threads_set.add("intra")
            torch.set_num_threads(settings.intra_op_threads)
        if settings.inter_op_threads is not None and "inter" not in _threads_set:
            _threads_set.add("inter")
            with contextlib.suppress(RuntimeError):  # too late: work has been done in parallel
                torch.set_num_interop_threads(settings.inter_op_threads)


def inference(settings: Settings) -> "contextlib.AbstractContextManager[Any]":
    """Within it, models run: nothing is recorded for gradients."""
    guard: contextlib.AbstractContextManager[Any] = (
        torch.inference_mode() if settings.inference_mode else torch.no_grad()
    )
    return guard


def load_operators(libraries: collections.abc.Iterable[str], model: str) -> None:
    """Load the libraries of custom operators that a config names (row 11.42), each once in a process.

    Raises:
        InferenceError: INVALID_ARG: one cannot be loaded.
    """
    for library in libraries:
        try:
            torch.ops.load_library(library)
        except Exception as error:
            raise invalid(
                f"unable to load model '{model}': custom operator library '{library}' (model_operations, op_library_filename): {reasons.said(error)}"
            ) from error
