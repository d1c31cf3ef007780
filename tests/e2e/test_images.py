"""Images of archives reach a node."""

import pathlib
import types
import typing

import pytest

from e2e.cluster import images
from e2e.cluster.namespaces import Namespaces
from tests.toolchain.programs import Programs


def _node() -> Namespaces:
    """Namespaces that are those of the test."""
    node = types.SimpleNamespace(name="node-a", entered=lambda *command: list(command))
    return typing.cast("Namespaces", node)


def _ctr(folder: pathlib.Path, script: str) -> Programs:
    program = folder / "ctr"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return Programs({"ctr": program})


def test_an_archive_is_imported_from_a_folder_that_the_node_does_not_see(tmp_path: pathlib.Path) -> None:  # fmt: skip
    """A node has its own /var, /opt and /run, and a checkout may lie below one of them."""
    archive = tmp_path / "image.tar"
    archive.write_bytes(b"layers")
    programs = _ctr(tmp_path, f'echo "$@" > {tmp_path}/arguments; cat > {tmp_path}/imported')
    images.import_archive(_node(), programs, archive)
    assert (tmp_path / "imported").read_bytes() == b"layers"
    assert str(archive) not in (tmp_path / "arguments").read_text()


def test_a_refused_archive_is_named_with_the_reason(tmp_path: pathlib.Path) -> None:
    archive = tmp_path / "image.tar"
    archive.write_bytes(b"no image")
    programs = _ctr(tmp_path, "echo unrecognized image format >&2; exit 1")
    with pytest.raises(RuntimeError, match=r"node-a: import of .*image\.tar: unrecognized image"):
        images.import_archive(_node(), programs, archive)
