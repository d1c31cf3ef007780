"""What the README shows does what it says: its requests, the client of the streaming example, and its list of what is not supported yet.

The snippets run as they stand; only the ports are those of the server that is started here.
"""

import collections.abc
import json
import os
import pathlib
import re
import subprocess
import sys

import pytest

from tests.reference.process import ServerProcess, naiad_program

ROOT = pathlib.Path(__file__).parents[3]
README = (ROOT / "README.md").read_text()

NOT_YET_IN_A_CONFIG = {
    "`tensorrtllm`": 'backend: "tensorrtllm"',
}
NOT_YET_AS_OPTION = {
    "SageMaker": "--allow-sagemaker=true",
    "Vertex AI": "--allow-vertex-ai=true",
}


def snippets(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.DOTALL | re.MULTILINE)


def not_yet() -> str:
    """The last column of the table of what works."""
    table = README[README.index("| | today | not yet |") :].split("\n\n")[0]
    return "\n".join(line.strip("|").split("|")[2] for line in table.splitlines())


@pytest.fixture(scope="module")
def examples(
    tmp_path_factory: pytest.TempPathFactory,
) -> collections.abc.Iterator[ServerProcess]:
    log = tmp_path_factory.mktemp("examples") / "log"
    repository = ROOT / "examples" / "model_repository"
    with ServerProcess(naiad_program(), [repository], log=log) as server:
        yield server


def output_of(*command: str | pathlib.Path) -> str:
    return subprocess.run(
        command, check=True, capture_output=True, text=True, timeout=60
    ).stdout.strip()


def test_the_curl_request_gets_the_response_that_is_shown(examples: ServerProcess) -> None:
    [curl] = [snippet for snippet in snippets("sh") if "curl" in snippet]
    [shown] = snippets("json")
    text = output_of("sh", "-c", curl.replace("localhost:8000", examples.http))
    assert json.loads(text) == json.loads(shown)


@pytest.mark.slow
def test_the_python_request_prints_what_its_comment_says(examples: ServerProcess) -> None:
    [python] = [snippet for snippet in snippets("python") if "tritonclient" in snippet]
    shown = python.rstrip().rpartition("# ")[2]
    text = output_of(sys.executable, "-c", python.replace("localhost:8000", examples.http))
    assert text == shown


@pytest.mark.slow
def test_the_program_that_has_a_server_prints_what_its_comment_says() -> None:
    [python] = [snippet for snippet in snippets("python") if "naiad.Server" in snippet]
    ended = subprocess.run(
        [sys.executable, "-c", python],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT / "server")},
        check=True, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert ended.stdout.strip() == python.rstrip().rpartition("# ")[2]


@pytest.mark.parametrize("wire", ["http", "grpc"])
def test_the_example_that_streams_shows_every_word(examples: ServerProcess, wire: str) -> None:
    address = examples.http if wire == "http" else examples.grpc
    options = ["--grpc"] if wire == "grpc" else []
    program = ROOT / "examples" / "stream_words.py"
    words = "one word after the other"
    command: list[str | pathlib.Path] = [
        program,
        "--address",
        address,
        *options,
        "--pause-ms",
        "0",
        words,
    ]
    assert output_of(sys.executable, *command) == words


@pytest.mark.slow
def test_a_config_that_asks_for_what_is_not_supported_yet_is_refused(
    tmp_path: pathlib.Path,
) -> None:
    listed = not_yet()
    for number, (words, text) in enumerate(NOT_YET_IN_A_CONFIG.items()):
        assert words in listed
        folder = tmp_path / f"model{number}"
        (folder / "1").mkdir(parents=True)
        (folder / "1" / "model.py").touch()
        backend = "" if "backend:" in text else 'backend: "python"\n'
        (folder / "config.pbtxt").write_text(f"{backend}{text}\n")
    checked = subprocess.run(
        [*naiad_program().command[:-1], "check", tmp_path],
        env=dict(naiad_program().environ),
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert checked.returncode == 1
    report = checked.stdout + checked.stderr
    served = [
        words
        for number, words in enumerate(NOT_YET_IN_A_CONFIG)
        if not re.search(rf"model{number}/config\.pbtxt:\d+.*(not supported yet|unable to find backend)", report)
    ]  # fmt: skip
    assert served == [], report


@pytest.mark.parametrize(("words", "option"), NOT_YET_AS_OPTION.items())
def test_an_option_for_what_is_not_supported_yet_is_refused(
    tmp_path: pathlib.Path, words: str, option: str
) -> None:
    assert words in not_yet()
    options = [option] if "repository" in option else [f"--model-repository={tmp_path}", option]
    status, text = naiad_program().run(options)
    assert status == 1
    assert option.partition("=")[2] in text or option in text
