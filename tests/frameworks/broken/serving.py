"""Writes the models of both tables, one process for each framework, and serves them: `PYTHON -m tests.frameworks.broken.serving FOLDER GROUP` writes those of one."""

import collections.abc
import concurrent.futures
import contextlib
import dataclasses
import json
import os
import pathlib
import subprocess
import sys

from tests.frameworks.broken.bad_graphs import GRAPHS
from tests.frameworks.broken.good_models import FRAMEWORKS, Good
from tests.reference.process import ServerProcess, naiad_program
from tests.wire.plain_http import call

ROOT = pathlib.Path(__file__).parents[3]

MODELS: dict[str, Good] = {f"{name}-good": good for name, good in FRAMEWORKS.items()} | {
    name: case.model for name, case in GRAPHS.items() if case.model is not None
}
"""What a framework has to write, by the name of the model; the others are copies with another file or another config."""

GROUPS = {
    "torch": ("torchscript", "exported"),
    "tensorflow": ("savedmodel", "savedmodel_weights", "graphdef"),
    "openvino": ("openvino", "openvino_weights"),
    "dali": ("dali",),
    "others": ("onnx", "caffe2", "forest"),
}
"""What is written by one process."""

IN_THREADS = ("pytorch", "openvino", "onnxruntime", "caffe2", "tensorflow")
"""Backends whose models run in threads of the server, so that each framework is imported once; those that may end a process are in processes all the same."""


@dataclasses.dataclass
class Served:
    """Two servers, because TensorFlow and torch do not bear each other in one process.

    Attributes:
        folder: a repository for each.
        of: the server of each model.
        index: what it says of the model.
    """

    folders: tuple[pathlib.Path, pathlib.Path]
    proof: pathlib.Path
    servers: list[ServerProcess]
    of: dict[str, ServerProcess]
    index: dict[str, dict[str, str]]


def framework_of(name: str) -> str:
    """The framework of a model."""
    return name.partition("-")[0]


def is_tensorflow(name: str) -> bool:
    """Whether TensorFlow serves it."""
    return framework_of(name) in GROUPS["tensorflow"]


UNREADABLE = (
    "Traceback",
    "Exception from",
    "frame #",
    "[enforce fail",
    "_src/",
    "Check '",
    "<--- HERE",
    "Original stack",
    "Please check the warnings",
    "\n",
)
"""What belongs to a framework's own sources, or hides its reason."""

LONGEST = 700
"""Characters of a reason that is read."""


def unreadable(reason: str) -> list[str]:
    """What keeps a reason from being one line that says what is wrong."""
    found = [each for each in UNREADABLE if each in reason]
    return found if len(reason) <= LONGEST else [*found, f"{len(reason)} characters"]


def write_all(folders: tuple[pathlib.Path, pathlib.Path]) -> None:
    """Write what frameworks have to write."""

    def write(group: str) -> None:
        folder = folders[group == "tensorflow"]
        command = [sys.executable, "-m", "tests.frameworks.broken.serving", str(folder), group]
        subprocess.run(command, check=True, cwd=ROOT, env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'server'}"})  # fmt: skip

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        list(pool.map(write, GROUPS))


@contextlib.contextmanager
def serving(
    folders: tuple[pathlib.Path, pathlib.Path], proof: pathlib.Path
) -> collections.abc.Iterator[Served]:
    """Serve both repositories."""
    options = [
        "--exit-on-error=false", "--strict-readiness=false", *(f"--backend-config={backend},host=thread" for backend in IN_THREADS),
    ]  # fmt: skip
    with contextlib.ExitStack() as stack:
        served = Served(folders, proof, [], {}, {})
        for folder in folders:
            log = folder.with_suffix(".log")
            made = ServerProcess(naiad_program(), [folder], log=log, options=options, settle_s=600)
            server = stack.enter_context(made)
            _, reply = call(server.http, "POST", "/v2/repository/index", {})
            served.servers.append(server)
            for each in json.loads(reply):
                served.of[each["name"]], served.index[each["name"]] = server, each
        yield served


if __name__ == "__main__":
    for model, good in MODELS.items():
        if framework_of(model) in GROUPS[sys.argv[2]]:
            good.write(pathlib.Path(sys.argv[1]) / model)
