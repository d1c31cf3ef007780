"""Another checkout of Naiad as a program to start: its own code, with its own virtual environment."""

import os
import pathlib
import subprocess

from benchmarks.load import LoadError
from tests.reference.process import Program

_WHERE = "import naiad, pathlib; print(pathlib.Path(naiad.__file__).resolve())"


def program_of(checkout: pathlib.Path, *, name: str) -> Program:
    """How to serve with a checkout; installs `.venv` there when it has none.

    Args:
        checkout: its root folder.
        name: for messages and tables.

    Raises:
        LoadError: it is not a checkout, cannot be installed, or would import another one's code.
    """
    checkout = checkout.resolve()
    server = (checkout / "server").resolve()
    if not (server / "naiad" / "__init__.py").is_file():
        raise LoadError(
            f"{checkout} is not a checkout of Naiad: give a folder with server/naiad in it, as `git worktree add DIR COMMIT` makes it"
        )
    python = checkout / ".venv" / "bin" / "python"
    if not python.exists():
        _install(checkout)
    # Hashes alike, so that dictionaries of both have the same collisions.
    environ = {**_inherited(), "PYTHONPATH": str(server), "PYTHONHASHSEED": "0", "TRITON_SERVER_CPU_ONLY": "1"}  # fmt: skip
    program = Program(name=name, command=(str(python), "-m", "naiad", "serve"), environ=environ)
    _check_code(program, python, server)
    return program


def _inherited() -> dict[str, str]:
    """This process's variables, without those by which an activated environment or a test run steers Python."""
    steering = {"VIRTUAL_ENV", "PYTHONHOME", "PYTHONPATH"}
    return {name: value for name, value in os.environ.items() if name not in steering}


def _install(checkout: pathlib.Path) -> None:
    print(f"installing {checkout}/.venv …", flush=True)
    environ = {**_inherited(), "VENV": ".venv"}
    finished = subprocess.run(  # noqa: S603 - the script of the checkout that the caller named
        [str(checkout / ".ci" / "environment"), "server"], cwd=checkout, env=environ, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if finished.returncode:
        raise LoadError(f"{checkout}/.venv could not be installed:\n{finished.stdout}{finished.stderr}")  # fmt: skip


def _check_code(program: Program, python: pathlib.Path, server: pathlib.Path) -> None:
    finished = subprocess.run(  # noqa: S603 - our own words
        [str(python), "-c", _WHERE], env=dict(program.environ), cwd=server, capture_output=True, text=True, check=False,
    )  # fmt: skip
    imported = pathlib.Path(finished.stdout.strip() or "/")
    if server not in imported.parents:
        raise LoadError(f"{python} imports {imported}, expected naiad below {server}: {finished.stderr.strip()}")  # fmt: skip
