"""How a worker ended, in words; its life is shown in `process/`."""

import pytest

from naiad.hosts.spawn import in_words


@pytest.mark.parametrize(
    ("status", "words"),
    [(0, "exited with status 0"), (-9, "was ended by SIGKILL"), (-77, "was ended by signal 77")],
)
def test_an_end_in_words(status: int, words: str) -> None:
    assert in_words(status) == words
