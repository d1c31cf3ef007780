"""The command that adds an extra to this installation fits how it was made."""

import importlib.metadata
import json
import pathlib

import pytest

from naiad import extras


@pytest.mark.parametrize(
    ("source", "command"),
    [
        ({"dir_info": {"editable": True}}, "pip install -e '{root}[s3]'"),
        ({"dir_info": {}}, "pip install '{root}[s3]'"),
    ],
)
def test_an_installation_from_a_checkout_is_extended_from_there(
    tmp_path: pathlib.Path, source: dict[str, object], command: str
) -> None:
    origin = json.dumps({"url": tmp_path.as_uri(), **source})
    (tmp_path / "pyproject.toml").touch()
    assert extras.from_origin(origin, "s3") == command.format(root=tmp_path)

    (tmp_path / "pyproject.toml").unlink()
    assert extras.from_origin(origin, "s3") == "pip install '.[s3]' (in a checkout of naiad)"


def test_an_installation_from_a_wheel_a_commit_or_something_unknown(tmp_path: pathlib.Path) -> None:
    wheel = tmp_path / "naiad-1-py3-none-any.whl"
    origin = json.dumps({"url": wheel.as_uri(), "archive_info": {}})
    gone = extras.from_origin(origin, "s3")
    assert gone == (
        f"pip install '.[s3]' (in a checkout of naiad; this one was installed from {wheel}, which is gone)"
    )
    wheel.touch()
    assert extras.from_origin(origin, "s3") == f"pip install 'naiad[s3] @ {wheel.as_uri()}'"

    commit = {"url": "ssh://host/naiad", "vcs_info": {"vcs": "git", "commit_id": "abc"}}
    assert extras.from_origin(json.dumps(commit), "s3") == (
        "pip install 'naiad[s3] @ git+ssh://host/naiad@abc'"
    )
    assert extras.from_origin("[]", "s3") == "pip install '.[s3]' (in a checkout of naiad)"


def test_sources_that_were_not_installed_name_their_checkout(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def missing(_name: str) -> None:
        raise importlib.metadata.PackageNotFoundError

    monkeypatch.setattr(importlib.metadata, "distribution", missing)
    root = pathlib.Path(__file__).resolve().parents[2]
    assert extras.install("oci") == f"pip install -e '{root}[oci]'"
