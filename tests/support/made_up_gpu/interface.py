"""The interface of the real package `tensorrt`, as its classes document it: recorded in interface.json, to which the made-up one is held.

`python -m tests.support.made_up_gpu.interface FOLDER` records it again. FOLDER holds an unpacked wheel of `tensorrt_cu12_bindings` (or cu13). Its module is linked to three
libraries of 4 GB, which need a GPU; stubs that only have the few names that it looks for, compiled here by `cc`, take their place.
"""

import argparse
import collections.abc
import importlib
import inspect
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
from typing import Any

RECORD = pathlib.Path(__file__).parent / "interface.json"

CLASSES = ("Runtime", "ICudaEngine", "IExecutionContext", "ILogger")
OVERRIDDEN = {"IOutputAllocator": ("reallocate_output", "reallocate_output_async", "notify_shape")}
"""Classes whose methods a program writes itself: their documentation has an example of each."""
ENUMS = ("DataType", "TensorIOMode", "TensorFormat", "ExecutionContextAllocationStrategy")
FUNCTIONS = ("init_libnvinfer_plugins",)

_LIBRARIES = ("nvinfer", "nvinfer_plugin", "nvonnxparser")
_SYMBOLS = (
    "createInferBuilder_INTERNAL", "createInferRefitter_INTERNAL", "createInferRuntime_INTERNAL", "createNvOnnxParserRefitter_INTERNAL",
    "createNvOnnxParser_INTERNAL", "getBuilderPluginRegistry", "getNvOnnxParserVersion", "getPluginRegistry", "initLibNvInferPlugins",
)  # fmt: skip
_STUBS = "STUBS_OF_TENSORRT"

Arguments = list[list[str]]
"""The names of arguments of each way to call a function, without `self`."""


def documented(text: str, name: str) -> Arguments:
    """The ways to call a function by its documentation, as pybind11 writes it."""
    found = re.findall(rf"\b{re.escape(name)}\((.*)\) -> ", text)
    return [
        [each.partition(":")[0].strip() for each in _split(arguments) if each.strip()]
        for arguments in found
    ]


def _split(arguments: str) -> list[str]:
    """The arguments of a signature; commas in brackets do not part them."""
    parts, depth = [""], 0
    for letter in arguments:
        depth += (letter in "[(<") - (letter in "])>")
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return [part for part in parts if not part.strip().startswith("self")]


def record(module: Any) -> dict[str, Any]:
    """What is recorded of the package."""
    classes: dict[str, Any] = {}
    for name in CLASSES:
        members = vars(getattr(module, name))
        classes[name] = {
            member: "property"
            if isinstance(value, property)
            else documented(value.__doc__ or "", member)
            for member, value in sorted(members.items())
            if not member.startswith("_")
        }
    for name, methods in OVERRIDDEN.items():
        text = getattr(module, name).__doc__
        classes[name] = {
            method: [_split(re.search(rf"def {method}\((.*)\):", text)[1])]  # type: ignore[index]
            for method in methods
        }
        for ways in classes[name].values():
            ways[0] = [each.strip() for each in ways[0]]
    return {
        "version": module.__version__,
        "classes": classes,
        "enums": {name: sorted(getattr(module, name).__members__) for name in ENUMS},
        "functions": {name: documented(getattr(module, name).__doc__, name) for name in FUNCTIONS},
    }


def faults(made_up: Any, real: dict[str, Any]) -> list[str]:
    """Where the made-up package has what the real one has not, or takes other arguments."""
    found: list[str] = []
    for name, members in real["classes"].items():
        for member, value in vars(getattr(made_up, name)).items():
            if member.startswith("_") or member == "fails":
                continue
            found += _faults_of(f"{name}.{member}", value, members.get(member))
        instance = {"Runtime": ("engine_host_code_allowed", "DLA_core")}.get(name, ())
        found += [
            f"{name}.{each} is not there" for each in instance if members.get(each) != "property"
        ]
    for name, ways in real["functions"].items():
        found += _faults_of(name, getattr(made_up, name), ways)
    for name, members in real["enums"].items():
        found += [
            f"{name}.{each.name} is not there"
            for each in getattr(made_up, name)
            if each.name not in members
        ]
    return found


def _faults_of(name: str, value: Any, recorded: Any) -> collections.abc.Iterator[str]:
    if recorded is None:
        yield f"{name} is not there"
    elif isinstance(value, property) or recorded == "property":
        if not (isinstance(value, property) and recorded == "property"):
            yield f"{name} is not the same kind of member"
    else:
        takes = [each for each in inspect.signature(value).parameters if each != "self"]
        if takes not in recorded:
            yield f"{name} takes {takes}, and the real one {recorded}"


def main() -> None:
    """Record the interface of the bindings in a folder."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("folder", type=pathlib.Path)
    folder = parser.parse_args().folder
    if _STUBS not in os.environ:
        with tempfile.TemporaryDirectory() as stubs:
            _compile_stubs(pathlib.Path(stubs), folder)
            environ = {**os.environ, _STUBS: stubs, "LD_LIBRARY_PATH": stubs}
            subprocess.run([sys.executable, "-m", __spec__.name, folder], check=True, env=environ)
        return
    sys.path.insert(0, str(folder))
    module = importlib.import_module("tensorrt_bindings")
    RECORD.write_text(json.dumps(record(module), indent=1) + "\n")


def _compile_stubs(stubs: pathlib.Path, folder: pathlib.Path) -> None:
    major = next(folder.glob("tensorrt_*_bindings-*.dist-info")).name.split("-")[1].split(".")[0]
    source = stubs / "stubs.c"
    source.write_text("".join(f"void *{name}(void) {{ return 0; }}\n" for name in _SYMBOLS))
    for name in _LIBRARIES:
        file = stubs / f"lib{name}.so.{major}"
        subprocess.run(["cc", "-shared", "-fPIC", "-o", file, source], check=True)


if __name__ == "__main__":
    main()
