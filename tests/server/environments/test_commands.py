"""Command lines and variables."""

import pathlib

from naiad.environments import commands

ENV = pathlib.Path("/cache/built-1")
FILE = pathlib.Path("/models/m/requirements.txt")


def test_the_servers_pip_installs_into_the_environment() -> None:
    assert commands.make_venv("py", ENV, with_pip=False) == [
        "py", "-m", "venv", "--without-pip", "/cache/built-1",
    ]  # fmt: skip
    command = commands.install("py", ENV, file=FILE, wheels=None, own_pip=False)
    assert command[:5] == ["py", "-m", "pip", "--python", "/cache/built-1/bin/python"]
    assert command[-2:] == ["--requirement", "/models/m/requirements.txt"]
    assert "--no-index" not in command


def test_a_server_without_pip_gives_the_environment_one_of_its_own() -> None:
    assert "--without-pip" not in commands.make_venv("py", ENV, with_pip=True)
    command = commands.install("py", ENV, file=FILE, wheels=None, own_pip=True)
    assert command[:3] == ["/cache/built-1/bin/python", "-m", "pip"]


def test_with_a_wheel_folder_no_other_source_is_used() -> None:
    wheels = pathlib.Path("/wheels")
    command = commands.install("py", ENV, file=FILE, wheels=wheels, own_pip=False)
    at = command.index("--no-index")
    assert command[at : at + 3] == ["--no-index", "--find-links", "/wheels"]
    server = {"PIP_FIND_LINKS": "/elsewhere", "PIP_CERT": "/cert", "PIP_TARGET": "/t"}
    seen = commands.environ(server, commands.installer_variables(only_wheels=True))
    assert "PIP_FIND_LINKS" not in seen
    assert "PIP_TARGET" not in seen
    assert seen["PIP_CERT"] == "/cert"
    seen = commands.environ(server, commands.installer_variables(only_wheels=False))
    assert seen["PIP_FIND_LINKS"] == "/elsewhere"


def test_a_worker_in_a_built_environment_sees_nothing_of_the_servers_packages() -> None:
    variables = commands.built_variables(ENV, "/usr/bin:/bin")
    server = {"PYTHONPATH": "/srv", "PYTHONHOME": "/home", "PATH": "/usr/bin:/bin", "KEPT": "1"}
    assert commands.environ(server, variables) == {
        "VIRTUAL_ENV": "/cache/built-1",
        "PATH": "/cache/built-1/bin:/usr/bin:/bin",
        "PYTHONNOUSERSITE": "1",
        "KEPT": "1",
    }


def test_a_packed_environment_gets_the_variables_of_its_activate_script_and_its_own_path() -> None:
    before = {"PATH": "/bin", "HOME": "/root", "GONE": "1", "PYTHONPATH": "/common", "SHLVL": "1"}
    activated = {
        "PATH": "/built/here/bin:/bin", "HOME": "/root", "CONDA_PREFIX": "/built/here", "PROJ_LIB": "/p", "PYTHONPATH": "/common",
        "SHLVL": "2", "_": "env",
    }  # fmt: skip
    assert commands.packed_variables(ENV, before, activated) == {
        "PATH": "/cache/built-1/bin:/built/here/bin:/bin",
        "CONDA_PREFIX": "/cache/built-1",
        "PROJ_LIB": "/p",
        "GONE": None,
        "PYTHONHOME": None,
        "PYTHONNOUSERSITE": "1",
    }


def test_another_interpreter_finds_an_environments_packages_first() -> None:
    packages = pathlib.Path("/e/lib/python3.11/site-packages")
    variables = commands.with_packages({"VIRTUAL_ENV": "/e", "A": "1"}, packages, "/common")
    assert variables == {"A": "1", "VIRTUAL_ENV": None, "PYTHONPATH": f"{packages}:/common"}
    assert commands.with_packages({}, packages, "")["PYTHONPATH"] == str(packages)


def test_values_with_line_ends_survive() -> None:
    assert commands.parse_environ(b"A=1\nand 2\0B=x=y\0") == {"A": "1\nand 2", "B": "x=y"}


def test_the_error_of_an_installer_is_its_output_from_the_first_error_on() -> None:
    output = [
        "Collecting torch==99",
        "ERROR: Could not find a version",
        "",
        "ERROR: No match",
        "end",
    ]
    assert commands.errors_of(output) == "ERROR: Could not find a version\nERROR: No match\nend"


def test_an_error_of_a_build_begins_with_a_small_letter() -> None:
    output = ["Collecting x", "  error: subprocess-exited-with-error", "  note: not pip"]
    assert commands.errors_of(output).startswith("  error: subprocess")


def test_an_error_without_the_word_is_the_end_of_the_output() -> None:
    shown = commands.errors_of([f"line {n}" for n in range(100)])
    assert shown.endswith("line 99")
    assert "line 50" not in shown
