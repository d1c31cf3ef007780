"""`naiad check` says of a broken model what the server says of it, in the same words."""

import pytest

from naiad.config.report import one_line
from tests.server.broken_repositories import BROKEN
from tests.support.check_and_serve import Compared, compare, same_words

_OPTIONS = [
    "--backend-config=python,host=thread",
    "--rate-limit=execution_count",
    "--rate-limit-resource=R:1",
]


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Compared:
    """One server and two checks for all models."""
    root = tmp_path_factory.mktemp("models")
    for name, broken in BROKEN.items():
        broken.write(root / name)
    log = tmp_path_factory.mktemp("log") / "server.log"
    return compare(root, BROKEN, log=log, options=_OPTIONS)


@pytest.mark.parametrize("name", [name for name, broken in BROKEN.items() if not broken.note])
def test_the_check_gives_the_reason_of_the_index(name: str, compared: Compared) -> None:
    problems = (compared.loaded if BROKEN[name].load else compared.problems)[name]
    assert same_words(compared.reasons[name], problems), (
        compared.reasons[name],
        list(map(one_line, problems)),
    )


@pytest.mark.parametrize("name", [name for name, broken in BROKEN.items() if broken.note])
def test_what_may_be_right_elsewhere_is_a_note_with_thesame_words(
    name: str, compared: Compared
) -> None:
    assert compared.problems[name] == []
    assert f"on this machine: {compared.reasons[name]}" in compared.notes[name]
