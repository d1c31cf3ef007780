"""What loading a Caffe2 model would refuse, seen without onnxruntime: its files, its operators, the config against them, and settings."""

import collections.abc
import pathlib
from typing import Any

from naiad.backends.caffe2.completion import missing_inputs
from naiad.backends.caffe2.described import input_types, signature
from naiad.backends.caffe2.net import NetDefError
from naiad.backends.caffe2.translation import read_nets, translate
from naiad.backends.model_files.graph_check import check_graph
from naiad.backends.onnxruntime import preflight as onnxruntime
from naiad.config.document import Document
from naiad.config.findings import Findings
from naiad.config.model_config import ModelConfig
from naiad.config.problem import Problem


def check_file(message: Any, path: pathlib.Path, findings: Findings) -> None:
    """Add a problem for everything in a completed config that the model's files contradict, and for operators that are not in the table."""
    types, refused = input_types(message)
    for each in refused:
        findings.add(each.field, each.text, "write the datatype of a number")
    if refused:
        return
    try:
        nets = read_nets(path)
        if missing := missing_inputs(message, nets):
            listed = _quoted(spec.name for spec in message.input) or "none"
            text = f"unable to load model '{message.name}', the net needs the inputs {_quoted(nets.inputs or nets.placeholders)}, the configuration lists {listed}"
            findings.add(("input",), text, missing)
            return
        found = signature(nets, types, translate(nets, types))
    except NetDefError as error:
        text = f"unable to load model '{message.name}': {error}"
        findings.problems.append(Problem(path=path, position=None, message=text))
        return
    check_graph(message, found, findings)


def preflight(
    config: ModelConfig,
    *,
    document: Document,
    model_dir: pathlib.Path,
    versions: collections.abc.Sequence[int],
    options: collections.abc.Mapping[str, str],
    host: str,
) -> list[Problem]:
    """See `Preflight`: settings that no session of onnxruntime could have."""
    return onnxruntime.preflight(
        config, document=document, model_dir=model_dir, versions=(), options=options, host=host
    )


def _quoted(names: collections.abc.Iterable[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)
