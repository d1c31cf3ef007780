"""Credentials of tests: none but those that a test writes."""

import tempfile
from pathlib import Path

import pytest

from naiad_operator.cluster import credentials
from tests.apiserver import certificates


@pytest.fixture(autouse=True)
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a pod nor a person's home; temporary files in a folder of the test."""
    monkeypatch.setattr(credentials, "_SERVICE_ACCOUNT", tmp_path / "no-pod")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> certificates.Certificates:
    return certificates.make(tmp_path_factory.mktemp("certificates"))
