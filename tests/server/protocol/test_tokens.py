"""Who is admitted by a token, and what happens when the file changes."""

import logging
import pathlib

import pytest

from naiad.core.clock import ManualClock
from naiad.protocol.tokens import TokenFile, TokenFileError, admits, parse

SECOND = 1_000_000_000


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        (b"one", (b"one",)),
        (b"one\n", (b"one",)),
        (b" one \r\n\n two\n", (b"one", b"two")),
        (b"\n \n", ()),
        (b"", ()),
    ],
)
def test_a_file_holds_a_token_a_line(text: bytes, tokens: tuple[bytes, ...]) -> None:
    assert parse(text) == tokens


@pytest.mark.parametrize(
    ("authorization", "admitted"),
    [
        (b"secret", True),
        (b"Bearer secret", True),
        (b"bearer  secret ", True),
        (b"other", True),
        (b"Bearer other", True),
        (b"Secret", False),
        (b"secret2", False),
        (b"secre", False),
        (b"Basic secret", False),
        (b"Bearer", False),
        (b"Bearer ", False),
        (b"", False),
        (b"\xff\xfe", False),
        (None, False),
    ],
)
def test_a_token_is_admitted_bare_or_behind_bearer(
    authorization: bytes | None, *, admitted: bool
) -> None:
    assert admits((b"secret", b"other"), authorization) is admitted


def test_a_token_that_looks_like_a_scheme_is_still_a_token() -> None:
    assert admits((b"Bearer x",), b"Bearer x")
    assert admits((b"Bearer x",), b"Bearer Bearer x")


def test_no_tokens_admit_no_client() -> None:
    assert not admits((), b"")


def write(path: pathlib.Path, text: str) -> None:
    """Put another file in its place, as Kubernetes does with a Secret."""
    other = path.with_suffix(".new")
    other.write_text(text)
    other.replace(path)


def test_a_changed_file_is_read_again_within_a_second(tmp_path: pathlib.Path) -> None:
    path, clock = tmp_path / "token", ManualClock()
    write(path, "old")
    tokens = TokenFile(str(path), clock=clock)
    write(path, "new")
    assert tokens.admits(b"old"), "not looked at again yet"
    clock.advance(ns=SECOND)
    assert tokens.admits(b"Bearer new")
    assert not tokens.admits(b"old")


def test_a_mounted_secret_changes_by_its_link(tmp_path: pathlib.Path) -> None:
    """The path stays a link to ..data/token; ..data is pointed at another folder."""
    clock = ManualClock()
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "token").write_text(name)
    data = tmp_path / "..data"
    data.symlink_to("first")
    (tmp_path / "token").symlink_to("..data/token")
    tokens = TokenFile(str(tmp_path / "token"), clock=clock)
    assert tokens.admits(b"first")
    other = tmp_path / "..data_tmp"
    other.symlink_to("second")
    other.replace(data)
    clock.advance(ns=SECOND)
    assert tokens.admits(b"second")
    assert not tokens.admits(b"first")


def test_a_file_that_is_removed_leaves_the_tokens_and_is_reported_once(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    path, clock = tmp_path / "token", ManualClock()
    write(path, "secret")
    tokens = TokenFile(str(path), clock=clock)
    path.unlink()
    for _ in range(3):
        clock.advance(ns=SECOND)
        assert tokens.admits(b"secret")
    assert [record.message.partition(" cannot")[0] for record in caplog.records] == [str(path)]
    write(path, "next")
    clock.advance(ns=SECOND)
    assert tokens.admits(b"next")


def test_a_file_that_becomes_empty_admits_no_client(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    path, clock = tmp_path / "token", ManualClock()
    write(path, "secret")
    tokens = TokenFile(str(path), clock=clock)
    write(path, "\n")
    clock.advance(ns=SECOND)
    with caplog.at_level(logging.ERROR):
        assert not tokens.admits(b"secret")
    assert "has become empty" in caplog.text


@pytest.mark.parametrize("text", [None, "", "\n\n"])
def test_a_server_does_not_start_without_a_token(tmp_path: pathlib.Path, text: str | None) -> None:
    path = tmp_path / "token"
    if text is not None:
        path.write_text(text)
    with pytest.raises(TokenFileError, match=r"--auth-token-file=.*one token per line"):
        TokenFile(str(path), clock=ManualClock())


def test_tokens_are_never_logged(tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture) -> None:
    path, clock = tmp_path / "token", ManualClock()
    write(path, "first-secret")
    tokens = TokenFile(str(path), clock=clock)
    with caplog.at_level(logging.DEBUG):
        for text in ("second-secret", ""):
            write(path, text)
            clock.advance(ns=SECOND)
            tokens.admits(b"sent-secret")
    assert caplog.records
    assert "secret" not in caplog.text.replace(str(path), "")
