"""What loading an OpenVINO model would refuse, seen without OpenVINO: the config against the file, and settings."""

import collections.abc
import pathlib
from typing import Any

from naiad.backends.model_files.graph_check import check_graph
from naiad.backends.model_files.wire_format import ModelFileError
from naiad.backends.openvino import intermediate
from naiad.backends.openvino.described import UNSUPPORTED, as_config_sees, read_signature
from naiad.backends.openvino.settings import settings_of
from naiad.config.document import Document
from naiad.config.findings import Findings
from naiad.config.model_config import ModelConfig
from naiad.config.problem import Problem
from naiad.config.refused import problems_of
from naiad.core.messages import model_config_pb2


def check_file(message: Any, path: pathlib.Path, findings: Findings) -> None:
    """Add a problem for everything in a completed config that the model's file contradicts."""
    for side in ("input", "output"):
        for index, spec in enumerate(getattr(message, side)):
            name = model_config_pb2.DataType.Name(spec.data_type)
            if name in [each.config_name for each in UNSUPPORTED]:
                text = f"unsupported datatype {name} for {side} '{spec.name}' for model '{message.name}'"
                findings.add((side, index, "data_type"), text, "write another datatype")
                return
    try:
        signature = read_signature(message, path)
    except ModelFileError as error:
        text = f"unable to load model '{message.name}': {error}"
        findings.problems.append(Problem(path=path, position=None, message=text))
        return
    if signature is not None:
        check_graph(message, as_config_sees(message, signature), findings)
        weights = path.with_suffix(".bin")
        if path.suffix == ".xml" and not weights.is_file():
            text = f"unable to load model '{message.name}': unable to find '{weights}', which holds its weights: copy it there"
            findings.problems.append(Problem(path=path, position=None, message=text))
        elif isinstance(signature, intermediate.Model):
            size = weights.stat().st_size
            if size < signature.weights:
                text = (
                    f"unable to load model '{message.name}': '{weights}' has {size} bytes, and '{path.name}' takes values from {signature.weights}: copy both "
                    "files again"
                )
                findings.problems.append(Problem(path=path, position=None, message=text))


def preflight(
    config: ModelConfig,
    *,
    document: Document,
    model_dir: pathlib.Path,
    versions: collections.abc.Sequence[int],
    options: collections.abc.Mapping[str, str],
    host: str,
) -> list[Problem]:
    """See `Preflight`: parameters that no model could have."""
    return problems_of(document, [lambda: settings_of(config.name, config.parameters)])
