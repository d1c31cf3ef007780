"""The server's arguments in a container's command and args."""

import pytest

from naiad_operator.convert.pod import command_line

FLAG = "--model-repository=/models"


@pytest.mark.parametrize(
    ("words", "arguments"),
    [
        (["tritonserver", FLAG], [FLAG]),
        (["/opt/tritonserver/bin/tritonserver", FLAG, "--id", "a"], [FLAG, "--id", "a"]),
        (["/opt/nvidia/nvidia_entrypoint.sh", "tritonserver", FLAG], [FLAG]),
        ([FLAG, "--id=a"], [FLAG, "--id=a"]),
        (["sh", "-c", f"tritonserver {FLAG}"], [FLAG]),
        (["/bin/bash", "-lc", f"exec tritonserver {FLAG} --id 'a b'"], [FLAG, "--id", "a b"]),
        (["bash", "-e", "-c", f"tritonserver \\\n  {FLAG} \\\n  --id=a"], [FLAG, "--id=a"]),
        (["sh", "-c", f"set -e; ldconfig && A=1 tritonserver {FLAG} 2>&1 | tee /log"], [FLAG]),
        (["sh", "-c", f"# starts\ntritonserver {FLAG} > /dev/null & wait"], [FLAG]),
        (["sh", "-c", f"tritonserver {FLAG} --id=$NAME --log-file=${{LOG:-/log}}"], [FLAG, "--id=$(NAME)", "--log-file=/log"]),
        (["sh", "-c", f"tritonserver {FLAG} --id=$(NAME)"], [FLAG, "--id=$(NAME)"]),
        (["sh", "-c", 'exec tritonserver "$@"', "--", FLAG, "--id", "a b"], [FLAG, "--id", "a b"]),
        (["sh", "-c", "tritonserver $* --id=a", "sh", FLAG], [FLAG, "--id=a"]),
        ([f"/opt/bin/tritonserver {FLAG} --id=a", "--log-verbose=1"], [FLAG, "--id=a", "--log-verbose=1"]),
        (["tritonserver", f"{FLAG} --id a", "--log-file=/a b"], [FLAG, "--id", "a", "--log-file=/a b"]),
        (["sh", "-c", f"trap 'kill $PID' TERM; tritonserver {FLAG} --id=${{ID:=a}} & PID=$!; wait $PID"], [FLAG, "--id=a"]),
        (["python3", "serve.py"], None),
        ([], None),
    ],
)  # fmt: skip
def test_arguments(words: list[str], arguments: list[str] | None) -> None:
    found = command_line.read(words, known=["NAME"])
    assert found.arguments == arguments
    assert bool(found.others) == (words != [] and arguments is None)


def test_a_script_that_installs_and_sets_variables() -> None:
    script = (
        "export A=1 B='x y'\nC=3\npip3 install -q --no-cache-dir torch==2.8 'numpy>=2' transformers[torch]\n"
        "python -m pip install -U scipy; D=$HOME tritonserver --id=$B"
    )
    found = command_line.read(["bash", "-c", script], known=["HOME"])
    assert found.requirements == ["torch==2.8", "numpy>=2", "transformers[torch]", "scipy"]
    assert found.variables == {"A": "1", "B": "x y", "C": "3", "D": "$(HOME)"}
    assert found.arguments == ["--id=$(B)"]
    assert found.others == []


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("pip install -r requirements.txt; tritonserver", "pip install -r requirements.txt: write the packages in"),
        ("pip install --index-url=http://a torch; tritonserver", "write the packages in predictor.model.pythonRequirements"),
        ("pip install ./wheel.whl /a; tritonserver", "write the packages in"),
        ("aws s3 sync s3://a /models && tritonserver", "aws s3 sync s3://a /models: the operator starts `naiad serve` and nothing else"),
        ("if [ -f /a ]; then tritonserver; fi", "if [ -f /a ]: the script decides at start"),
        ("tritonserver --id=$UNSET", "the variable UNSET is not set in env"),
        ("tritonserver --id=$(hostname)", "the shell computes this at start"),
        ("tritonserver --id='a", "tritonserver --id='a: the operator starts"),
        ("mpirun -n 1 tritonserver", "mpirun -n 1: the operator starts the server itself"),
        ("numactl -N 0 tritonserver", "numactl -N 0: the operator starts"),
    ],
)  # fmt: skip
def test_what_a_script_does_besides_is_said(script: str, words: str) -> None:
    found = command_line.read(["sh", "-c", script])
    assert any(words in other for other in found.others), found.others


def test_a_command_that_is_not_known_is_said() -> None:
    found = command_line.read(["python3", "launch_triton_server.py", "--model_repo", "/models"])
    assert found.arguments is None
    assert found.others[0].startswith("python3 launch_triton_server.py --model_repo /models: the")


def test_a_variable_that_extends_the_value_of_the_image_is_left_out() -> None:
    """The kubelet knows no value of the image: a pod with PATH=$(PATH):/x would find no command."""
    found = command_line.read(["sh", "-c", "export PATH=$PATH:/x A=${A}b B=1; tritonserver"], ["A"])
    assert found.variables == {"B": "1"}
    assert [one.partition(": ")[0] for one in found.others] == ["PATH=$PATH:/x", "A=${A}b"]


def test_words_behind_a_script_are_not_the_servers() -> None:
    """A common mistake: the shell runs the first word, and the server starts without options."""
    found = command_line.read(["sh", "-c", "tritonserver", FLAG, "--id=a"])
    assert found.arguments == []
    [other] = found.others
    assert other.startswith(f"{FLAG} --id=a: the shell runs only the first word behind -c")


def test_what_the_shell_computes_is_left_out_and_said_once() -> None:
    script = "export A=$(nproc --all) B=1 STATUS=a$? PID=$!\ntritonserver --id=$(hostname) --log-verbose `cat /v` --id=$B"
    found = command_line.read(["sh", "-c", script], known=[])
    assert found.arguments == ["--id=$(B)"]
    assert found.variables == {"B": "1"}
    assert [one.partition(": ")[0] for one in found.others] == [
        "A=$(nproc --all)",
        "STATUS=a$?",
        "--id=$(hostname)",
        "--log-verbose $(cat /v)",
    ]
