"""The commands: what they say of their version, and of packages that are not installed."""

import pathlib
import subprocess
import sys
import tomllib

import pytest

import naiad
import naiad_operator
from naiad_operator import cli


def said(module: str, function: str, arguments: list[str], *, missing: str) -> str:
    """What a command says to standard error in an interpreter without a package."""
    code = (
        f"import sys; sys.modules[{missing!r}] = None; sys.argv = {['x', *arguments]!r}\n"
        f"from {module} import {function}; sys.exit({function}())"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 1, ended
    return ended.stderr


@pytest.mark.parametrize(
    ("arguments", "missing"),
    [
        (["serve", "--model-repository=models"], "uvloop"),
        (["serve", "--model-repository=models"], "msgspec"),
        (["check", "models"], "google.protobuf"),
    ],
    ids=str,
)
def test_without_its_packages_the_server_says_what_to_install(
    arguments: list[str], missing: str
) -> None:
    package = missing.partition(".")[0]
    assert said("naiad.__main__", "main", arguments, missing=missing) == (
        f"naiad: the package {package} is missing: pip install 'naiad[server]' brings it\n"
    )


@pytest.mark.parametrize(("command", "missing"), [("check", "yaml"), ("run", "kopf")])
def test_without_its_packages_the_operator_says_what_to_install(command: str, missing: str) -> None:
    arguments = [command] if command == "run" else [command, "-f", "-"]
    assert said("naiad_operator.__main__", "main", arguments, missing=missing) == (
        f"naiad-operator: the package {missing} is missing: pip install 'naiad[operator]' brings it\n"
    )


def test_a_module_of_our_own_that_is_missing_is_a_bug_and_shown_as_one() -> None:
    serve = ["serve", "--model-repository=models"]
    for module, missing, arguments in (
        ("naiad.__main__", "naiad.options.parsing", serve),
        ("naiad.__main__", "naiad.serve.command", serve),
        ("naiad_operator.__main__", "naiad_operator.cli", []),
    ):
        assert "Traceback" in said(module, "main", arguments, missing=missing)


def test_both_commands_say_the_version_of_the_distribution(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = (pathlib.Path(__file__).parent.parent / "pyproject.toml").read_text()
    version = tomllib.loads(text)["project"]["version"]
    assert naiad.__version__ == naiad_operator.__version__ == version
    with pytest.raises(SystemExit) as ended:
        cli.main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"naiad-operator {version}\n"
