"""The page about sharing a device: its command starts a server, and the shares that its client prints follow the priorities."""

import collections.abc
import pathlib
import re
import subprocess
import sys

import pytest

from tests.reference.process import ServerProcess, naiad_program

ROOT = pathlib.Path(__file__).parents[3]
EXAMPLE = ROOT / "examples" / "sharing_a_device"
PAGE = (ROOT / "docs" / "sharing-a-device.md").read_text()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> collections.abc.Iterator[ServerProcess]:
    repository, option = re.findall(
        r"^naiad serve --model-repository=(\S+) (\S+)$", PAGE, re.MULTILINE
    )[0]
    log = tmp_path_factory.mktemp("sharing") / "log"
    with ServerProcess(naiad_program(), [ROOT / repository], log=log, options=[option]) as server:
        yield server


def shares(server: ServerProcess, *options: str) -> dict[str, tuple[float, float]]:
    """The share of each model and the one that is expected, in percent."""
    shown = subprocess.run(
        [sys.executable, EXAMPLE / "drive.py", server.http, *options],
        check=True, capture_output=True, text=True, timeout=60,
    ).stdout  # fmt: skip
    rows = re.findall(r"^(\w+) +\d+ +\d+ +([\d.]+)% +([\d.]+)%$", shown, re.MULTILINE)
    return {model: (float(share), float(expected)) for model, share, expected in rows}


def test_three_models_have_the_shares_of_their_priorities(server: ServerProcess) -> None:
    found = shares(server, "--seconds=3")
    assert {model: expected for model, (_, expected) in found.items()} == {
        "interactive": 57.1,
        "batch_small": 28.6,
        "batch_large": 14.3,
    }
    assert all(abs(share - expected) < 2.5 for share, expected in found.values()), found


def test_the_device_is_for_those_that_have_work(server: ServerProcess) -> None:
    found = shares(server, "--seconds=2", "--models=interactive,batch_large")
    assert abs(found["interactive"][0] - 80) < 2.5, found


def test_the_page_shows_what_the_configs_say() -> None:
    for model, priority in re.findall(r"^\| `(\w+)` \| (\d) \|", PAGE, re.MULTILINE):
        text = (EXAMPLE / "model_repository" / model / "config.pbtxt").read_text()
        assert 'resources { name: "DEVICE" count: 1 }' in text
        assert f"priority: {priority} " in text
