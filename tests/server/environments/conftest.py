"""One environment for all tests of packed ones: a real virtual environment, made once. Its numpy is an empty package with a version."""

import pathlib
import subprocess
import sys
import tarfile

import pytest

from naiad.environments.inspector import packages_in


@pytest.fixture(scope="session")
def packed(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The environment's folder; it has a module `packed_word`."""
    folder = tmp_path_factory.mktemp("packed") / "env"
    command = [sys.executable, "-m", "venv", "--without-pip", str(folder)]
    subprocess.run(command, check=True)
    numpy = packages_in(folder) / "numpy"
    numpy.mkdir()
    (numpy / "__init__.py").write_text("__version__ = '1.99'\n")
    (packages_in(folder) / "packed_word.py").write_text("WORD = 'packed'\n")
    return folder


@pytest.fixture(scope="session")
def packed_tarball(packed: pathlib.Path) -> pathlib.Path:
    """The environment as a tarball."""
    path = packed.with_name("env.tar.gz")
    with tarfile.open(path, "w:gz", compresslevel=1) as archive:
        archive.add(packed, ".")
    return path
