"""Warmup samples of a config (rows 11.41, 14.31 to 14.34): each fits the model, and its files are there. It looks at files, and reads those of strings."""

import collections.abc
import math
import pathlib
from typing import Any

from naiad.config.document import FieldPath
from naiad.config.findings import Findings, did_you_mean
from naiad.core import datatypes
from naiad.core.file_kind import is_file, why_no_file
from naiad.core.messages import model_config_pb2
from naiad.core.tensor import count_packed

FOLDER = "warmup"
"""The folder of the model's folder that has the files of samples."""

MOST_BYTES = 1 << 31
"""The most bytes of a sample: of its inputs together, each counted once."""

_BYTES = model_config_pb2.TYPE_STRING
_TYPES = model_config_pb2.DataType


def check_warmup(
    message: Any, findings: Findings, model_dir: pathlib.Path, *, knows_inputs: bool
) -> None:
    """Add a problem for each sample that cannot be run.

    Args:
        message: normalised and completed.
        findings: gets the problems.
        model_dir: the model's folder.
        knows_inputs: whether it lists all inputs of the model; else their names are not checked.
    """
    if message.HasField("ensemble_scheduling"):
        return  # which have no instances to warm up, and have a rule of their own
    for index, sample in enumerate(message.model_warmup):
        if sample.batch_size:
            _Sample(message, findings, model_dir / FOLDER, index, knows_inputs).check()


class _Sample:
    """Checks one sample."""

    def __init__(
        self,
        message: Any,
        findings: Findings,
        folder: pathlib.Path,
        index: int,
        knows_inputs: bool,  # noqa: FBT001 - private
    ) -> None:
        self._message = message
        self._findings = findings
        self._folder = folder
        self._path: FieldPath = ("model_warmup", index)
        self._sample = message.model_warmup[index]
        self._label = f"model_warmup[{index}] '{self._sample.name}'"
        self._knows_inputs = knows_inputs

    def check(self) -> None:
        sample, message = self._sample, self._message
        most = message.max_batch_size
        if 0 < most < sample.batch_size and self._findings.trusted(("max_batch_size",)):
            self._findings.add(
                (*self._path, "batch_size"),
                f"{self._label}: batch size {sample.batch_size} for '{message.name}', max allowed is {most}",
                f"write batch_size: {most} or less",
            )
        total = 0
        for name in sorted(sample.inputs):
            total += self._check_input(name, sample.inputs[name])
        if total > MOST_BYTES:
            self._findings.add(
                self._path,
                f"{self._label}: its inputs have {total} bytes, the most is {MOST_BYTES}",
                "write smaller dims",
            )
        if self._knows_inputs:
            self._check_missing()
        self._note_further()

    def _note_further(self) -> None:
        """A sample has only the inputs that it lists, also of those that the sequence batcher adds to requests (row 14.34)."""
        left_out = sorted(self._further_inputs() - set(self._sample.inputs))
        if left_out:
            self._findings.notes.append(
                f"{self._label}: runs without the inputs {_names(left_out)} of sequence_batching, because it does not list them"
            )

    def _check_missing(self) -> None:
        inputs = self._message.input
        given = sorted(self._sample.inputs)
        missing = [
            each.name
            for each in inputs
            if not getattr(each, "optional", False) and each.name not in self._sample.inputs
        ]
        if missing:
            self._findings.add(
                (*self._path, "inputs"),
                f"{self._label}: expected {len(inputs)} inputs but got {len(given)} inputs for model '{self._message.name}'. Got input(s) "
                f"{_names(given)}, but missing required input(s) {_names(missing)}. Please provide all required input(s).",
                f'write inputs {{ key: "{missing[0]}" value {{ data_type: … dims: … zero_data: true }} }}',
            )

    def _check_input(self, name: str, given: Any) -> int:
        """Check one input; returns its bytes."""
        path: FieldPath = (*self._path, "inputs", name)
        label = f"{self._label}, input '{name}'"
        known = {each.name: each for each in self._message.input}
        findings = self._findings
        if given.data_type == model_config_pb2.TYPE_INVALID:
            findings.add(
                path,
                f"{label}: data_type is missing",
                f"write data_type: {_TYPES.Name(known[name].data_type)}" if name in known else "",
            )
            return 0
        if any(size < 0 for size in given.dims):
            findings.add(
                (*path, "dims"),
                f"{label}: warmup setting expects all variable-size dimensions are specified for input '{name}'; got {_shape(given.dims)}",
                "write a number in place of each -1",
            )
            return 0
        if name in known:
            self._check_spec(path, label, given, known[name])
        elif self._knows_inputs and name not in self._further_inputs():
            findings.add(
                path,
                f"{label}: unexpected inference input '{name}' for model '{self._message.name}'; its inputs are {_names(known)}",
                did_you_mean(name, known),
            )
        kind = given.WhichOneof("input_data_type")
        if kind is None and findings.trusted((*path, "input_data_file")):
            findings.add(
                path,
                f"{label}: warmup setting expects input '{name}' to have input_data_type set",
                "write zero_data: true, random_data: true or input_data_file",
            )
        elif kind == "input_data_file":
            self._check_file((*path, kind), label, given)
        size: int = math.prod(given.dims) * _size(given.data_type)
        return size

    def _further_inputs(self) -> set[str]:
        """Inputs of the model that requests do not send: of the sequence batcher (row 14.34)."""
        batching = self._message.sequence_batching
        names = {each.name for each in batching.control_input}
        return names | {each.input_name for each in batching.state}

    def _check_spec(self, path: FieldPath, label: str, given: Any, spec: Any) -> None:
        if given.data_type != spec.data_type:
            self._findings.add(
                (*path, "data_type"),
                f"{label}: inference input '{spec.name}' data-type is '{_TYPES.Name(given.data_type)}', but model '{self._message.name}' "
                f"expects '{_TYPES.Name(spec.data_type)}'",
                f"write data_type: {_TYPES.Name(spec.data_type)}",
            )
        sizes = list(given.dims)
        fits = len(sizes) == len(spec.dims) and all(
            wanted in (-1, size) for wanted, size in zip(spec.dims, sizes, strict=True)
        )
        if not fits:
            batched = self._message.max_batch_size > 0
            with_batch = batched and len(sizes) == len(spec.dims) + 1
            self._findings.add(
                (*path, "dims"),
                f"{label}: unexpected shape for input '{spec.name}' for model '{self._message.name}'. Expected {_shape(spec.dims)}, got "
                f"{_shape(sizes)}",
                "leave out the batch dimension: batch_size says how many requests are run together"
                if with_batch
                else "",
            )

    def _check_file(self, path: FieldPath, label: str, given: Any) -> None:
        file = self._folder / given.input_data_file
        advice = f"put the file into the folder {FOLDER} of the model, or write zero_data: true"
        try:
            found = is_file(file)
            size = file.stat().st_size if found else 0
        except OSError as error:
            self._findings.add(path, f"{label}: unable to read '{file}': {error.strerror}", advice)
            return
        if not found:
            self._findings.add(
                path,
                f"{label}: failed to open text file for read {file}: {why_no_file(file)}",
                advice,
            )
            return
        expected = math.prod(given.dims) * _size(given.data_type)
        if given.data_type == _BYTES:
            if size <= MOST_BYTES:
                self._check_strings(path, label, given, file)
        elif size < expected:
            self._findings.add(
                path,
                f"{label}: warmup setting expects {expected} bytes, but the data provided from {given.input_data_file} only has {size} bytes",
                f"write {expected} bytes into it: the values of the shape {_shape(given.dims)} in the order of the machine",
            )
        elif size > expected:
            self._findings.notes.append(
                f"{label}: the last {size - expected} of the {size} bytes of {given.input_data_file} are not used"
            )

    def _check_strings(self, path: FieldPath, label: str, given: Any, file: pathlib.Path) -> None:
        expected = math.prod(given.dims)
        try:
            body = file.read_bytes()
        except OSError as error:
            self._findings.add(path, f"{label}: unable to read '{file}': {error.strerror}")
            return
        elements, _, at = count_packed(body, 0, len(body), expected)
        if elements == expected and at == len(body):
            return
        what = (
            f"more than {expected} elements"
            if elements > expected
            else f"{elements} elements"
            if at == len(body)
            else "a last element that is cut off"
        )
        self._findings.add(
            path,
            f"{label}: warmup setting expects {expected} elements, but the data provided from {given.input_data_file} has {what}",
            "write each element behind its length in 4 little-endian bytes",
        )


def _size(data_type: int) -> int:
    """The bytes of an element; of a string at least those of its length."""
    datatype = datatypes.BY_CONFIG_NAME[_TYPES.Name(data_type)]
    return 4 if datatype is datatypes.BYTES else datatype.size


def _shape(dims: collections.abc.Iterable[int]) -> str:
    return "[" + ",".join(map(str, dims)) + "]"


def _names(names: collections.abc.Iterable[str]) -> str:
    return "[" + ",".join(f"'{name}'" for name in names) + "]"
