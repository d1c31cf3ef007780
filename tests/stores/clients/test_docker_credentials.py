"""User and password of a registry: which file and which helper counts, and what is wrong with one."""

import base64
import json
import pathlib
import stat

import pytest

from naiad.repository.stores.clients.docker_credentials import login
from naiad.repository.stores.objects import StoreError


def auth(user: str, password: str) -> dict[str, str]:
    return {"auth": base64.b64encode(f"{user}:{password}".encode()).decode()}


def write(path: pathlib.Path, document: object) -> pathlib.Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document))
    return path


@pytest.fixture
def helper(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """A credential helper; it answers with the name that it was asked for."""
    program = tmp_path / "bin" / "docker-credential-test"
    program.parent.mkdir()
    program.write_text(
        '#!/bin/sh\nprintf \'{"Username": "helped", "Secret": "%s:%s"}\' "$1" "$(cat)"\n'
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    return program


def test_podman_s_files_come_before_docker_s_and_the_first_that_names_the_registry_counts(
    tmp_path: pathlib.Path,
) -> None:
    explicit = write(tmp_path / "auth.json", {"auths": {"one": auth("a", "explicit")}})
    write(
        tmp_path / "run/containers/auth.json",
        {"auths": {"one": auth("a", "run"), "two": auth("b", "run")}},
    )
    write(
        tmp_path / "docker/config.json",
        {"auths": {"two": auth("b", "docker"), "https://three": auth("c", "d:e")}},
    )
    environ = {
        "REGISTRY_AUTH_FILE": str(explicit), "XDG_RUNTIME_DIR": str(tmp_path / "run"), "DOCKER_CONFIG": str(tmp_path / "docker"),
    }  # fmt: skip
    assert login("one", environ) == ("a", "explicit")
    assert login("two", environ) == ("b", "run")
    assert login("three", environ) == ("c", "d:e")
    assert login("four", environ) is None
    assert login("one", {}) is None


def test_docker_hub_has_a_name_of_its_own_and_the_home_folder_is_read(
    tmp_path: pathlib.Path,
) -> None:
    write(
        tmp_path / ".docker/config.json", {"auths": {"https://index.docker.io/v1/": auth("u", "p")}}
    )
    assert login("registry-1.docker.io", {"HOME": str(tmp_path)}) == ("u", "p")
    assert login("ghcr.io", {"HOME": str(tmp_path)}) is None


@pytest.mark.usefixtures("helper")
def test_credential_helpers(tmp_path: pathlib.Path) -> None:
    environ = {"DOCKER_CONFIG": str(tmp_path)}
    write(
        tmp_path / "config.json",
        {"credHelpers": {"gcr.io": "test"}, "auths": {"ghcr.io": {}}, "credsStore": "test"},
    )
    assert login("gcr.io", environ) == ("helped", "get:gcr.io")
    assert login("ghcr.io", environ) == ("helped", "get:ghcr.io")
    assert login("quay.io", environ) is None


@pytest.mark.usefixtures("helper")
@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"credHelpers": {"r": "missing"}}, "docker-credential-missing, which is not installed"),
        ({"credHelpers": {"r": "../evil"}}, "is not the name of a credential helper"),
        ({"credHelpers": {"r": "false"}}, "gives no credentials for r"),
        ({"auths": {"r": {"auth": "c2VjcmV0"}}}, "is not USER:PASSWORD in base64"),
        ({"auths": {"r": {"auth": "%secret"}}}, "is not USER:PASSWORD in base64"),
        ({"auths": ["secret"]}, "is not a valid file of credentials"),
    ],
)
def test_what_cannot_be_used_is_named_without_secrets(
    tmp_path: pathlib.Path, helper: pathlib.Path, document: object, message: str
) -> None:
    failing = helper.with_name("docker-credential-false")
    failing.symlink_to("/bin/false")
    path = write(tmp_path / "config.json", document)
    with pytest.raises(StoreError, match=message) as error:
        login("r", {"DOCKER_CONFIG": str(tmp_path)})
    assert str(path) in error.value.message
    assert "secret" not in error.value.message
