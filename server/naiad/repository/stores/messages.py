"""The messages between a server and its store process (`core.processes.message_stream`)."""

import typing

import msgspec

from naiad.repository.polling.fingerprint import File


class Settings(msgspec.Struct, frozen=True):
    """Where the models of a store are cached.

    Attributes:
        root: the cache folder.
        lease: the server's folder in it.
        limit: bytes; 0: no limit.
        is_temporary: whether the folder is removed with the server.
    """

    root: str
    lease: str
    limit: int
    is_temporary: bool


Method = typing.Literal["names", "fingerprints", "checkout"]


class Request(msgspec.Struct, frozen=True):
    """A call of a method of a store.

    Attributes:
        number: of the replies.
        method: of `Store` or `BatchStore`.
        location: the repository's address as the user wrote it.
        names: the model, or the models of a batch; none for `names`.
    """

    number: int
    method: Method
    location: str
    names: tuple[str, ...]
    settings: Settings


class Names(msgspec.Struct, frozen=True, tag=True):
    """The result of `names`."""

    number: int
    names: list[str]


class Files(msgspec.Struct, frozen=True, tag=True):
    """The fingerprint of one model."""

    files: dict[str, frozenset[File]]


class Failed(msgspec.Struct, frozen=True, tag=True):
    """A call raised an InferenceError, or one model of a batch has no fingerprint."""

    number: int
    code: str
    message: str


class Batch(msgspec.Struct, frozen=True, tag=True):
    """The result of `fingerprints`: one per model, in their order."""

    number: int
    results: list[Files | Failed]


class CheckedOut(msgspec.Struct, frozen=True, tag=True):
    """The result of `checkout`: the model's folder, in a folder of its own."""

    number: int
    folder: str


class Downloaded(msgspec.Struct, frozen=True, tag=True):
    """The progress of a checkout, in bytes."""

    number: int
    done: int
    total: int


class Logged(msgspec.Struct, frozen=True, tag=True):
    """A line for the server's log."""

    level: int
    message: str


class Alive(msgspec.Struct, frozen=True, tag=True):
    """Sent every few seconds, so that a process that is stopped or stuck is noticed."""


Result = Names | Batch | CheckedOut | Failed
Reply = Result | Downloaded | Logged | Alive
