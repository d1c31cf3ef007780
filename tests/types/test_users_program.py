"""Type checkers know all that is public: a user's program against the installed package."""

import os
import pathlib
import subprocess
import sys

SERVER = pathlib.Path(__file__).parents[2] / "server"

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


def test_a_users_program_is_checked_strictly(tmp_path: pathlib.Path) -> None:
    """As after an installation: by the marker in the package, without its sources being checked."""
    assert (SERVER / "naiad" / "py.typed").exists()
    (tmp_path / "program.py").write_text(USER)
    (tmp_path / "wrong.py").write_text(
        "import naiad\nserver = naiad.Server(3)\nserver.infer('a', {}, timeout='1')\nserver.infer('a', {}, verison=1)\n"
    )
    checks = ["-m", "mypy", "--strict", "--config-file=", f"--cache-dir={tmp_path / 'cache'}"]
    command = [sys.executable, *checks, "program.py", "wrong.py"]
    variables = {**os.environ, "PYTHONPATH": str(SERVER)}
    checked = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=tmp_path, env=variables
    )
    lines = [line for line in checked.stdout.splitlines() if "error" in line]
    assert [line.partition(" error")[0] for line in lines[:-1]] == [
        "wrong.py:2:",
        "wrong.py:3:",
        "wrong.py:4:",
    ], checked.stdout
