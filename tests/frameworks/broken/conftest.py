"""Both tables are served by the same two servers."""

import collections.abc

import pytest

from tests.frameworks.broken import bad_files, serving
from tests.frameworks.broken.serving import Served


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> collections.abc.Iterator[Served]:
    """Both servers, with every model of both tables."""
    root = tmp_path_factory.mktemp("broken")
    folders, proof = (root / "models", root / "tensorflow"), root / "ran"
    serving.write_all(folders)
    bad_files.write_all(folders, proof)
    with serving.serving(folders, proof) as both:
        yield both
