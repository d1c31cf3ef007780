"""`import naiad` imports nothing else; its names come with their first use."""

import os
import pathlib
import subprocess
import sys

import pytest

import naiad

ROOT = pathlib.Path(__file__).parents[2]
SERVER = ROOT / "server"


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
