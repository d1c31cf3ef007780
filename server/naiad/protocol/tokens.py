"""API tokens (`--auth-token-file`): who may call, and reading the file again when it changes.

Every call except those about health must carry `Authorization: <token>` or `Authorization: Bearer <token>`. The metrics port is another
listener and needs no token. Without the option nothing here is ever called: the guards are put around handlers when those are made.
"""

import collections.abc
import hmac
import logging
import pathlib

from naiad.core.clock import Clock

UNAUTHENTICATED = "This server requires a token: send the header 'Authorization: Bearer TOKEN' with a token from its administrator"
"""The same for no token and for a wrong one: the message must not help to guess one."""

HEADER = "authorization"
CHALLENGE = (b"WWW-Authenticate", b"Bearer")

_BEARER = b"bearer "
_MAX_FILE_BYTES = 1 << 20
_CHECK_INTERVAL_NS = 1_000_000_000

log = logging.getLogger(__name__)


def parse(text: bytes) -> tuple[bytes, ...]:
    """The tokens of a file, one per line; blank lines and spaces around tokens are left out."""
    return tuple(line.strip() for line in text.splitlines() if line.strip())


def admits(tokens: collections.abc.Iterable[bytes], authorization: bytes | None) -> bool:
    """Whether a header's value is one of the tokens, bare or behind `Bearer`; None means that the call has no such header.

    Every token is compared, each in constant time, so that the time of a response does not depend on them.
    """
    if authorization is None:
        return False
    sent = authorization.strip()
    bare = sent[len(_BEARER) :].strip() if sent[: len(_BEARER)].lower() == _BEARER else sent
    admitted = False
    for token in tokens:
        # A token may itself begin with "Bearer ": both readings of the header are tried.
        admitted |= hmac.compare_digest(token, bare) | hmac.compare_digest(token, sent)
    return admitted


class TokenFileError(ValueError):
    """The file cannot be used; the message says what to do."""


class TokenFile:
    """The tokens of a file, which is checked again at most once per second, when a call comes.

    A Secret that Kubernetes mounts changes by a link that is put in place of another: the file is another one then, with another
    inode. A file that cannot be read any more leaves the tokens as they were; one that became empty admits no call.

    Raises:
        TokenFileError: the file has no tokens at the start.
    """

    def __init__(self, path: str, *, clock: Clock) -> None:
        self._path = pathlib.Path(path)
        self._clock = clock
        self._checked_ns = clock.monotonic_ns()
        self._error_logged = False
        try:
            self._seen = self._identity()
            self._tokens = self._read()
        except OSError as error:
            raise TokenFileError(
                f"--auth-token-file={path}: {error.strerror or error}: name a file with one token per line"
            ) from None
        if not self._tokens:
            raise TokenFileError(
                f"--auth-token-file={path} is empty, so that no call could be admitted: write one token per line"
            )

    def admits(self, authorization: bytes | None) -> bool:
        """Whether the call is admitted with a header's value."""
        now = self._clock.monotonic_ns()
        if now - self._checked_ns >= _CHECK_INTERVAL_NS:
            self._checked_ns = now
            self._check()
        return admits(self._tokens, authorization)

    def _check(self) -> None:
        try:
            identity = self._identity()
            if identity == self._seen:
                return
            self._tokens = self._read()
            self._seen = identity
        except OSError as error:
            if not self._error_logged:
                self._error_logged = True
                log.error(  # noqa: TRY400 - the message is the whole story
                    "%s cannot be read any more (%s): the tokens stay as they were",
                    self._path,
                    error,
                )
            return
        self._error_logged = False
        if self._tokens:
            log.info("%s has changed: %d tokens", self._path, len(self._tokens))
        else:
            log.error("%s has become empty: no call is admitted until it holds a token", self._path)

    def _identity(self) -> tuple[int, int, int, int]:
        status = self._path.stat()
        return (status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size)

    def _read(self) -> tuple[bytes, ...]:
        with self._path.open("rb") as file:
            return parse(file.read(_MAX_FILE_BYTES))
