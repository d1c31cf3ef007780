"""Model files that are cut off, changed, empty, folders, or pickles that would run code, of every framework: each fails its own model, with a reason.

Some changed files still load: of these the server has to answer, or to fail, each request. One server has them all, most in its own process.
"""

import collections.abc
import dataclasses
import json
import os
import pathlib
import pickle
import random
import shutil
import subprocess
import sys
from typing import Any

import pytest
from typing_extensions import override

from tests.frameworks.broken.good_models import FRAMEWORKS
from tests.reference.process import ServerProcess, naiad_program
from tests.support.waiting import wait_until
from tests.wire.plain_http import call, get

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

ROOT = pathlib.Path(__file__).parents[3]

CUTS = (0.1, 0.5, -1)
"""Where a file is cut off: bytes, parts of it, bytes from its end."""

FLIPS = 1
"""How many files have eight changed bytes."""


class RunsCode:
    def __init__(self, path: pathlib.Path) -> None:
        self.path = path

    @override
    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.path),)


def broken(data: bytes, proof: pathlib.Path, seed: str) -> dict[str, bytes | None]:
    """The contents of the file, by what is wrong with it; None is a folder."""
    found: dict[str, bytes | None] = {"empty": b"", "folder": None, "pickle": pickle.dumps(RunsCode(proof))}  # fmt: skip
    for cut in CUTS:
        end = int(len(data) * cut) if isinstance(cut, float) else cut
        found[f"cut_{cut}".replace("-", "m").replace(".", "_")] = data[:end]
    chosen = random.Random(seed)
    for number in range(FLIPS):
        changed = bytearray(data)
        for _ in range(8):
            changed[chosen.randrange(len(changed))] ^= 1 << chosen.randrange(8)
        found[f"flipped_{number}"] = bytes(changed)
    return found


@dataclasses.dataclass
class Served:
    server: ServerProcess
    proof: pathlib.Path
    index: dict[str, dict[str, str]]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> collections.abc.Iterator[Served]:
    folder = tmp_path_factory.mktemp("bad_files")
    models, proof = folder / "models", folder / "ran"

    for name, good in FRAMEWORKS.items():
        whole = models / f"{name}-good"
        command = [sys.executable, "-m", "tests.frameworks.broken.good_models", name, str(whole)]
        subprocess.run(command, check=True, cwd=ROOT, env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'server'}"})  # fmt: skip
        for how, content in broken((whole / "1" / good.file).read_bytes(), proof, name).items():
            path = shutil.copytree(whole, models / f"{name}-{how}") / "1" / good.file
            path.unlink()
            if content is None:
                path.mkdir()
            else:
                path.write_bytes(content)
    options = ["--exit-on-error=false", "--strict-readiness=false"]
    with ServerProcess(naiad_program(), [models], log=folder / "log", options=options, settle_s=600) as server:  # fmt: skip
        _, reply = call(server.http, "POST", "/v2/repository/index", {})
        yield Served(server, proof, {each["name"]: each for each in json.loads(reply)})


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_a_bad_file_fails_its_model_with_a_reason(served: Served, name: str) -> None:
    mine = {key.partition("-")[2]: each for key, each in served.index.items() if key.startswith(f"{name}-")}  # fmt: skip
    assert mine["good"]["state"] == "READY", mine["good"]
    of_any_bytes = (
        name == "openvino_weights"
    )  # as many as the graph wants, and no more is known of them
    for how in ("empty", "folder") if of_any_bytes else ("empty", "folder", "pickle"):
        assert mine[how]["state"] == "UNAVAILABLE", (how, mine[how])
    for how, each in mine.items():
        if each["state"] != "READY":
            reason = each["reason"]
            assert len(reason) > 20, (how, each)
            assert "worker process was ended" not in reason, (how, each)
            assert "Traceback" not in reason, (how, each)


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_what_loads_all_the_same_answers_or_fails_its_requests(served: Served, name: str) -> None:
    good = FRAMEWORKS[name]
    for key, each in served.index.items():
        if key.startswith(f"{name}-") and each["state"] == "READY" and good.body:
            status, reply = call(served.server.http, "POST", f"/v2/models/{key}/infer", good.body)
            assert status in (200, 400, 500) or "error" in json.loads(reply), (key, status, reply)
            if key.endswith("-good"):
                assert status == 200, reply
    assert get(served.server.http, "/v2/health/live")[0] == 200


def test_no_pickle_has_run(served: Served) -> None:
    wait_until(lambda: get(served.server.http, "/v2/health/live")[0] == 200)
    assert not served.proof.exists()
