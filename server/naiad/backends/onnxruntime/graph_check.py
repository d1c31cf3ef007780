"""A config held against an ONNX file, and against the session that was made of it. A session knows more, such as output shapes that onnxruntime infers."""

import pathlib
from typing import Any

from naiad.backends.model_files.graph_check import check_graph
from naiad.backends.model_files.signature import Signature
from naiad.backends.onnxruntime import external_weights
from naiad.backends.onnxruntime.onnx_graph import OnnxFileError, read
from naiad.config.document import Document
from naiad.config.findings import Findings
from naiad.config.model_config import ModelConfig
from naiad.config.problem import Problem
from naiad.errors import invalid


def check_file(message: Any, path: pathlib.Path, findings: Findings) -> None:
    """Add a problem for everything in the config that the model file contradicts, and for weights files that cannot be read."""
    try:
        graph = read(path)
    except OnnxFileError as error:
        text = f"unable to load model '{message.name}': {error}"
        findings.problems.append(Problem(path=path, position=None, message=text))
        return
    check_graph(message, graph, findings)
    for text in external_weights.faults(path, graph.external_files):
        findings.problems.append(Problem(path=path, position=None, message=text))


def check_session(config: ModelConfig, signature: Signature) -> None:
    """Compare the config with a session, before anything runs (row 11.15).

    Raises:
        InferenceError: INVALID_ARG, the first difference.
    """
    path = pathlib.Path(config.name)
    document = Document(path=path, text="", message=config.message, positions={}, problems=())
    findings = Findings(document)
    check_graph(config.message, signature, findings, of_session=True)
    for problem in findings.problems:
        raise invalid(f"{problem.message}: {problem.suggestion}")
