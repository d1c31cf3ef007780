"""`import naiad` imports nothing else; its names come with their first use, and type checkers know all of them."""

import os
import pathlib
import subprocess
import sys

import pytest

import naiad

ROOT = pathlib.Path(__file__).parents[2]
SERVER = ROOT / "server"

USER = '''\
"""A small program of a user."""

import asyncio

import numpy as np

import naiad

ARRAY = np.zeros((1, 4), np.float32)


@naiad.model(inputs=[naiad.Tensor((4,), np.float32)], outputs=[naiad.Tensor((4,), np.float32, "y")])
def twice(x: "np.ndarray[tuple[int, ...], np.dtype[np.float32]]") -> object:
    return {"y": x * 2}


def main() -> None:
    with naiad.Server("models", model_control_mode="explicit", load_model=["add"]) as server:
        result: naiad.Result = server.infer("add", {"INPUT0": ARRAY, "NAME": ["a"]}, timeout=1.5, version=1)
        print(result["OUTPUT0"].shape, result.model_version, result.parameters.get("seed"))
        for part in server.stream("chat", {"TEXT": ["hello"]}, request_id="1", outputs=["WORD"]):
            print(part["WORD"].tolist())
        print(server.model_metadata("add")["inputs"], server.index(ready=True), server.serve_http(0))
        try:
            server.load("other", config={"max_batch_size": 8})
        except naiad.InferenceError as error:
            print(error.code is naiad.ErrorCode.NOT_FOUND, error.message)


async def main_of_a_task() -> None:
    async with naiad.AsyncServer("models", functions=[twice]) as server:
        print((await server.infer("add", {"INPUT0": ARRAY}))["OUTPUT0"])
        async for part in server.stream("chat", {"TEXT": ["hello"]}):
            print(part["WORD"])


main()
asyncio.run(main_of_a_task())
'''


def python(*words: str, cwd: pathlib.Path | None = None) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, *words],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(SERVER)},
    )


def test_the_import_of_naiad_imports_no_package_and_nothing_of_its_own() -> None:
    script = (
        "import sys; before = set(sys.modules); import naiad; "
        "print(sorted(set(sys.modules) - before))"
    )
    assert python("-c", script).stdout == "['naiad']\n"


def test_the_server_as_a_library_imports_no_framework_and_no_web_framework() -> None:
    script = "import sys, naiad; naiad.Server, naiad.AsyncServer; print(sorted({name.partition('.')[0] for name in sys.modules}))"
    imported = set(eval(python("-c", script).stdout))
    assert "numpy" in imported
    assert not imported & {"torch", "tensorflow", "onnxruntime", "openvino", "fastapi", "grpc"}


def test_every_public_name_is_there_and_said_to_be() -> None:
    assert set(naiad.__all__) == {"__version__", *vars(naiad)["_HOMES"]}
    assert set(naiad.__all__) <= set(dir(naiad))
    stub = (SERVER / "naiad" / "__init__.pyi").read_text()
    for name in naiad.__all__:
        assert getattr(naiad, name).__doc__
        assert f'    "{name}",\n' in stub
    with pytest.raises(AttributeError, match="module 'naiad' has no attribute 'Sever'"):
        getattr(naiad, "Sever")  # noqa: B009 - type checkers know it


def test_every_public_method_says_what_it_does() -> None:
    for owner in (
        naiad.Server,
        naiad.AsyncServer,
        naiad.Result,
        naiad.Request,
        naiad.Tensor,
        naiad.FunctionModel,
    ):
        for name, value in vars(owner).items():
            if callable(value) and not name.startswith("_"):
                assert value.__doc__, f"{owner.__name__}.{name}"


@pytest.mark.slow
def test_a_users_program_is_checked_strictly(tmp_path: pathlib.Path) -> None:
    """As after an installation: by the marker in the package, without its sources being checked."""
    assert (SERVER / "naiad" / "py.typed").exists()
    (tmp_path / "program.py").write_text(USER)
    (tmp_path / "wrong.py").write_text(
        "import naiad\nserver = naiad.Server(3)\nserver.infer('a', {}, timeout='1')\nserver.infer('a', {}, verison=1)\n"
    )
    checks = ["-m", "mypy", "--strict", "--config-file=", f"--cache-dir={tmp_path / 'cache'}"]
    checked = python(*checks, "program.py", "wrong.py", cwd=tmp_path)
    lines = [line for line in checked.stdout.splitlines() if "error" in line]
    assert [line.partition(" error")[0] for line in lines[:-1]] == [
        "wrong.py:2:",
        "wrong.py:3:",
        "wrong.py:4:",
    ], checked.stdout
