"""What a start does without: each of these would be paid by every server, for what few of them do."""

import importlib.util
import subprocess
import sys

import pytest

_EVERYTHING_A_START_IMPORTS = """
import sys
from naiad.serve import command
from naiad.protocol.grpc import methods
from naiad.protocol.grpc.transport.native import listener
from naiad.backends.onnxruntime import backend
"""

_NOT_AT_START = (
    # The control plane, with its first request.
    "fastapi", "starlette", "pydantic",
    # The other engine of gRPC: 25 MB.
    "grpc",
    # A terminal.
    "rich",
    # The first unload of a model; a GPU.
    "psutil", "pynvml",
    # The first model that runs in a worker process.
    "naiad.hosts.process.process_host", "naiad.hosts.process.notifications", "naiad.hosts.process.worker_process", "naiad.hosts.process.spawn", "naiad.engine.instances.workers", "naiad.engine.instances.workers", "naiad.engine.bls.worker_rpc",
    "naiad.backends.backend_runner",
    # The first Python model.
    "naiad.backends.python.backend", "naiad.environments.environments",
    # The first model of a backend that is not the server's own.
    "importlib.metadata",
    # protobuf's Python implementation, which has no use beside the C one.
    "google.protobuf.internal.decoder", "google.protobuf.internal.encoder", "google.protobuf.text_format",
)  # fmt: skip


_NOT_FOR_OPTIONS = ("asyncio", "grpc", "numpy", "uvloop", "naiad.serve.server")

_EVERYTHING_A_WORKER_IMPORTS = """
import sys
from naiad.backends.python import worker_model
from naiad.backends.python.api import triton_python_backend_utils
from naiad.hosts.worker import asking, main, work
"""


def run(script: str) -> None:
    """In a new interpreter, where nothing is imported yet."""
    subprocess.run(
        [sys.executable, "-c", script], check=True, env={"PYTHONPATH": ":".join(sys.path)}
    )


def test_a_start_imports_nothing_that_can_wait() -> None:
    missing = [name for name in _NOT_AT_START if importlib.util.find_spec(name) is None]
    assert missing == [], (
        "renamed or removed: such a name can never be found among what is imported"
    )
    run(
        _EVERYTHING_A_START_IMPORTS
        + f"early = sorted(set({_NOT_AT_START}) & set(sys.modules))\nassert not early, early"
    )


@pytest.mark.parametrize(
    ("argument", "status"), [("--help", 0), ("--no-such-option=1", 1)], ids=["help", "wrong option"]
)
def test_help_and_usage_errors_do_not_import_the_server(argument: str, status: int) -> None:
    run(
        "import sys\n"
        "from naiad.__main__ import main\n"
        f"sys.argv = ['naiad', 'serve', {argument!r}]\n"
        f"assert main() == {status}\n"
        f"early = sorted(set({_NOT_FOR_OPTIONS}) & set(sys.modules))\nassert not early, early"
    )


def test_a_worker_of_a_python_model_imports_asyncio_only_for_coroutines() -> None:
    run(_EVERYTHING_A_WORKER_IMPORTS + "assert 'asyncio' not in sys.modules")


def test_garbage_is_not_collected_while_modules_are_imported_and_is_afterwards() -> None:
    run(
        "import gc\n"
        "from naiad.serve import interpreter\n"
        "interpreter.begin()\n"
        "assert not gc.isenabled()\n"
        "interpreter.imported()\n"
        "assert gc.isenabled() and gc.get_freeze_count() and gc.get_threshold()[0]\n"
    )
