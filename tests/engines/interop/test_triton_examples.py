"""The examples of Triton's Python client, unchanged, against the native gRPC engine (and those over HTTP beside them).

They are in no package: `TRITON_CLIENT` names a checkout of triton-inference-server/client. Its examples in JavaScript and Rust run where npm and cargo are installed.
"""

import collections.abc
import contextlib
import functools
import os
import pathlib
import shutil
import subprocess
import sys

import pytest
from PIL import Image

from tests.engines.interop import example_models
from tests.reference.process import ServerProcess, naiad_program
from tests.toolchain.programs import cache_folder

CLIENT = pathlib.Path(os.environ.get("TRITON_CLIENT", "Triton's client"))
RUST = CLIENT / "src" / "rust" / "triton-client"
EXAMPLES = CLIENT / "src" / "python" / "examples"

pytestmark = [
    pytest.mark.skipif(
        not EXAMPLES.is_dir(), reason="TRITON_CLIENT names no checkout of Triton's client"
    ),
    pytest.mark.xdist_group("triton_examples"),
    pytest.mark.timeout(600),
]

NUMBERS = (
    "simple", "simple_int8", "simple_string", "simple_identity", "simple_sequence", "simple_dyna_sequence", "simple_string_dyna_sequence",
    "repeat_int32",
)  # fmt: skip
"""Eight, as `simple_grpc_model_control.py` expects; `simple_http_model_control.py` expects seven."""

PROTOCOL_BY_OPTION = (
    "reuse_infer_objects_client.py",
    "ensemble_image_client.py",
    "image_client.py",
)
"""These speak HTTP unless an option says gRPC."""

RUNS: "dict[str, tuple[tuple[str, ...], ...]]" = {
    "grpc_client.py": ((),),
    "grpc_explicit_byte_content_client.py": ((),),
    "grpc_explicit_int8_content_client.py": ((),),
    "grpc_explicit_int_content_client.py": ((),),
    "reuse_infer_objects_client.py": (("-i", "grpc"), ("-i", "http")),
    "simple_grpc_aio_infer_client.py": ((),),
    "simple_grpc_aio_sequence_stream_infer_client.py": ((), ("-d",)),
    "simple_grpc_async_infer_client.py": ((),),
    "simple_grpc_custom_args_client.py": ((),),
    "simple_grpc_custom_repeat.py": ((),),
    "simple_grpc_health_metadata.py": ((),),
    "simple_grpc_infer_client.py": ((), ("-C", "gzip"), ("-C", "deflate")),
    "simple_grpc_keepalive_client.py": ((),),
    "simple_grpc_model_control.py": ((),),
    "simple_grpc_sequence_stream_infer_client.py": ((), ("-d",)),
    "simple_grpc_sequence_sync_infer_client.py": ((), ("-d",)),
    "simple_grpc_shm_client.py": ((),),
    "simple_grpc_shm_string_client.py": ((),),
    "simple_grpc_string_infer_client.py": ((),),
    "simple_http_aio_infer_client.py": ((),),
    "simple_http_async_infer_client.py": ((),),
    "simple_http_health_metadata.py": ((),),
    "simple_http_infer_client.py": ((),),
    "simple_http_sequence_sync_infer_client.py": ((), ("-d",)),
    "simple_http_shm_client.py": ((),),
    "simple_http_shm_string_client.py": ((),),
    "simple_http_string_infer_client.py": ((),),
    "simple_http_model_control.py": ((),),
    "ensemble_image_client.py": (("-i", "grpc"), ()),
    "grpc_image_client.py": (("-m", "densenet_onnx"), ("-m", "densenet_onnx", "-a"), ("-m", "classifier", "-b", "2", "--streaming")),
    "image_client.py": (("-m", "classifier", "-i", "grpc"), ("-m", "classifier", "-i", "grpc", "-a"), ("-m", "classifier", "-i", "grpc", "--streaming")),
}  # fmt: skip
"""Each example with its options."""

LEFT_OUT = {
    "memory_growth_test.py": "has no option for the port",
    "simple_grpc_cudashm_client.py": "needs a GPU and cuda-python",
    "simple_http_cudashm_client.py": "needs a GPU and cuda-python",
}
"""Also `image_client.py` over HTTP: it imports attrdict, which no longer works with Python 3.10 and newer."""


def models_of(example: str) -> tuple[str, ...]:
    """The repository that an example expects."""
    if "image" in example or example == "grpc_client.py":
        return ("classifier", "decoder", "densenet_onnx")
    if example == "simple_grpc_model_control.py":
        return NUMBERS[::-1]  # the same models on a server of its own: it unloads one
    return NUMBERS[:7] if example == "simple_http_model_control.py" else NUMBERS


ServerOf = collections.abc.Callable[[tuple[str, ...]], ServerProcess]


@pytest.fixture(scope="module")
def server_of(tmp_path_factory: pytest.TempPathFactory) -> collections.abc.Iterator[ServerOf]:
    """The server of a set of models, started once."""
    with contextlib.ExitStack() as servers:

        @functools.cache
        def server_of(models: tuple[str, ...]) -> ServerProcess:
            folder = tmp_path_factory.mktemp("examples")
            example_models.put(folder / "models", *models)
            options = (
                "--grpc-engine=native",
                "--model-control-mode=explicit",
                "--load-model=*",
                "--allow-client-shm=true",
            )
            log = folder / "server.log"
            return servers.enter_context(
                ServerProcess(naiad_program(), [folder / "models"], log=log, options=options)
            )

        yield server_of


@pytest.mark.parametrize(
    ("example", "options"),
    [(name, options) for name, runs in RUNS.items() for options in runs],
    ids=[" ".join((name, *options)) for name, runs in RUNS.items() for options in runs],
)
def test_example_passes(
    server_of: ServerOf, example: str, options: tuple[str, ...], tmp_path: pathlib.Path
) -> None:
    server = server_of(models_of(example))
    picture = tmp_path / "picture.jpg"
    Image.new("RGB", (320, 240), "seagreen").save(picture)
    http = "http" in example or (example in PROTOCOL_BY_OPTION and "grpc" not in options)
    command = [sys.executable, str(EXAMPLES / example), "-u", server.http if http else server.grpc, *options]  # fmt: skip
    if "image" in example:
        command.append(str(picture))
    finished = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert finished.returncode == 0, finished.stdout[-2000:] + finished.stderr[-2000:]


def run(*command: str, folder: pathlib.Path, environ: "dict[str, str] | None" = None) -> None:
    environ = {**os.environ, **(environ or {})}
    finished = subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, timeout=1200, check=False)  # fmt: skip
    assert finished.returncode == 0, finished.stdout[-3000:] + finished.stderr[-3000:]


@pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed")
def test_the_example_in_javascript_passes(server_of: ServerOf, tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "javascript"
    shutil.copytree(CLIENT / "src" / "grpc_generated" / "javascript", folder)
    shutil.copytree(RUST / "proto", folder / "proto")
    run("npm", "install", "--no-audit", "--no-fund", folder=folder)
    run("node", "client.js", "127.0.0.1", str(server_of(NUMBERS).ports.grpc), folder=folder)


@pytest.mark.timeout(2400)
@pytest.mark.skipif(
    not (shutil.which("cargo") and (os.environ.get("PROTOC") or shutil.which("protoc"))),
    reason="cargo or protoc is not installed",
)
def test_the_client_in_rust_passes_its_tests(server_of: ServerOf, tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "rust"
    shutil.copytree(RUST, folder)
    address = "http://" + server_of(("simple", "identity_fp32")).grpc
    built = {
        "CARGO_TARGET_DIR": str(cache_folder() / "triton-client-rust"),
        "TRITON_TEST_URL": address,
    }
    run("cargo", "test", "--locked", folder=folder, environ=built)
    run("cargo", "run", "--locked", "--example", "simple_grpc_infer", "--", address, folder=folder, environ=built)  # fmt: skip


def test_every_example_is_in_one_of_the_tables() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} == set(RUNS) | set(LEFT_OUT)
