"""API tokens (`--auth-token-file`): who may call, and reading the file again when it changes.

Every call but those about health must carry `Authorization: <token>` or `Authorization: Bearer <token>`. The metrics port is another
listener and asks for nothing. Without the option nothing here is ever called: the guards are put around handlers when those are made.
"""

import collections.abc
import hmac
import logging
import pathlib

from naiad.core.clock import Clock

ASK_FOR_ONE = "This server asks for a token: send the header 'Authorization: Bearer TOKEN' with a token that whoever runs it gave you"
"""The same for no token and for a wrong one: what is wrong with a token is nobody's business."""

HEADER = "authorization"
CHALLENGE = (b"WWW-Authenticate", b"Bearer")

_BEARER = b"bearer "
_LARGEST_FILE = 1 << 20
_LOOK_AGAIN_NS = 1_000_000_000

log = logging.getLogger(__name__)


def parse(text: bytes) -> tuple[bytes, ...]:
    """The tokens of a file: one a line, blank lines and spaces around them left out."""
    return tuple(line.strip() for line in text.splitlines() if line.strip())


def admits(tokens: collections.abc.Iterable[bytes], authorization: bytes | None) -> bool:
    """Whether a header's value is one of the tokens, bare or behind `Bearer`; None means that the header did not come.

    Every token is compared, each in constant time, so that the time of an answer tells nothing of them.
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
    """The tokens of a file, looked at again at most once a second, when somebody calls.

    A Secret that Kubernetes mounts changes by a link that is put in place of another: the file is another one then, with another
    inode. A file that cannot be read any more leaves the tokens as they were; one that became empty admits nobody.

    Args:
        path: the file.
        clock: when to look again.

    Raises:
        TokenFileError: there are no tokens to begin with.
    """

    def __init__(self, path: str, *, clock: Clock) -> None:
        self._path = pathlib.Path(path)
        self._clock = clock
        self._looked_ns = clock.monotonic_ns()
        self._told = False
        try:
            self._seen = self._identity()
            self._tokens = self._read()
        except OSError as error:
            raise TokenFileError(
                f"--auth-token-file={path}: {error.strerror or error}: name a file with a token a line"
            ) from None
        if not self._tokens:
            raise TokenFileError(
                f"--auth-token-file={path} is empty, so nobody could call: write a token a line"
            )

    def admits(self, authorization: bytes | None) -> bool:
        """Whether a header's value opens the call."""
        now = self._clock.monotonic_ns()
        if now - self._looked_ns >= _LOOK_AGAIN_NS:
            self._looked_ns = now
            self._look()
        return admits(self._tokens, authorization)

    def _look(self) -> None:
        try:
            identity = self._identity()
            if identity == self._seen:
                return
            self._tokens = self._read()
            self._seen = identity
        except OSError as error:
            if not self._told:
                self._told = True
                log.error(  # noqa: TRY400 - the message is the whole story
                    "%s cannot be read any more (%s): the tokens stay as they were",
                    self._path,
                    error,
                )
            return
        self._told = False
        if self._tokens:
            log.info("%s has changed: %d tokens", self._path, len(self._tokens))
        else:
            log.error("%s has become empty: nobody can call until it holds a token", self._path)

    def _identity(self) -> tuple[int, int, int, int]:
        found = self._path.stat()
        return (found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size)

    def _read(self) -> tuple[bytes, ...]:
        with self._path.open("rb") as file:
            return parse(file.read(_LARGEST_FILE))
