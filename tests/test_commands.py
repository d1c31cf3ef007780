"""The commands: what they say of their version, and of packages that are not installed."""

import os
import pathlib
import signal
import subprocess
import sys
import tomllib

import pytest

import naiad
import naiad_operator
from naiad import extras
from naiad.__main__ import main as naiad_main
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
        f"naiad: the package {package} is missing: {extras.install('server')} brings it\n"
    )


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["srve"], "naiad: there is no command 'srve'; did you mean naiad serve?"),
        (["chekc", "models"], "naiad: there is no command 'chekc'; did you mean naiad check?"),
        (["xyzzy"], "naiad: there is no command 'xyzzy'\n"),
        (
            ["--model-repository=models"],
            "options come behind the command, naiad serve --model-repository=models",
        ),
        (["check", "--gpuz=2", "models"], "unrecognized option '--gpuz'; did you mean --gpus?"),
        (["check", "--gpuz"], "unrecognized option '--gpuz'; did you mean --gpus?"),
        (["check", "--xyzzy"], "unrecognized option '--xyzzy'; naiad check --help lists all"),
        (["fetch", "s3://b/m", "--too=x"], "unrecognized option '--too'; did you mean --to?"),
    ],
    ids=" ".join,
)
def test_a_misspelled_command_or_option_is_answered_with_the_nearest(
    words: list[str],
    hint: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "argv", ["naiad", *words])
    assert naiad_main() in {1, 2}
    assert hint in capsys.readouterr().err


def test_an_option_may_be_shortened_and_words_behind_two_dashes_are_folders(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    (tmp_path / "--gpuz").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["naiad", "check", "--gpu=2", "--", "--gpuz"])
    naiad_main()
    assert "unrecognized" not in capsys.readouterr().err


STUBBORN = """\
#!{python}
import os, sys, time
if sys.argv[1:3] == ["-m", "venv"]:
    print("making it", flush=True)
    if not os.fork():
        time.sleep(100)
    os.wait()
sys.exit(0)
"""


def test_ctrl_c_ends_the_making_of_the_environment_without_a_traceback(
    tmp_path: pathlib.Path,
) -> None:
    python = tmp_path / "python"
    python.write_text(STUBBORN.format(python=sys.executable))
    python.chmod(0o755)
    script = pathlib.Path(__file__).parent.parent / ".ci" / "environment"
    with subprocess.Popen(
        [script, "server"],
        env={**os.environ, "PYTHON": str(python), "VENV": str(tmp_path / "venv")},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        while "making it" not in process.stdout.readline():
            pass
        os.killpg(process.pid, signal.SIGINT)
        assert process.stdout.read() == "stopped: the same command goes on from here\n"
        assert process.wait(60) == 130


@pytest.mark.parametrize(("command", "missing"), [("check", "yaml"), ("run", "kopf")])
def test_without_its_packages_the_operator_says_what_to_install(command: str, missing: str) -> None:
    arguments = [command] if command == "run" else [command, "-f", "-"]
    assert said("naiad_operator.__main__", "main", arguments, missing=missing) == (
        f"naiad-operator: the package {missing} is missing: pip install '.[operator]' in a checkout of naiad brings it\n"
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
