"""The Dockerfiles copy what there is, install an extra that there is, and start a command that there is."""

import pathlib
import re
import tomllib

import pytest

ROOT = pathlib.Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
# The users that the operator gives to the pods (docs/operator.md).
IMAGES = {
    "Dockerfile.server": ("server", "tritonserver", "1000:1000"),
    "Dockerfile.operator": ("operator", "naiad-operator", "65532:65532"),
}


@pytest.mark.parametrize("name", IMAGES)
def test_an_image_is_made_of_what_the_tree_holds(name: str) -> None:
    text = (ROOT / name).read_text()
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    sources = [
        word
        for line in re.findall(r"^COPY (.*)$", text, re.MULTILINE)
        for word in line.split()[:-1]
    ]
    assert {"pyproject.toml", "server", "operator"} <= set(sources)
    for source in sources:
        assert (ROOT / source).exists()
        assert f"!{source}" in ignored
    # hatchling reads these for the package's metadata
    assert {PROJECT["readme"], *PROJECT["license-files"]} <= set(sources)


@pytest.mark.parametrize(("name", "expected"), IMAGES.items())
def test_an_image_installs_an_extra_and_starts_its_command(
    name: str, expected: tuple[str, str, str]
) -> None:
    extra, command, user = expected
    text = (ROOT / name).read_text()
    assert extra in PROJECT["optional-dependencies"]
    assert f"ARG EXTRA={extra}\n" in text or f'".[{extra}]"' in text
    assert command in PROJECT["scripts"]
    assert f'ENTRYPOINT ["{command}"]' in text
    assert f"USER {user}\n" in text
