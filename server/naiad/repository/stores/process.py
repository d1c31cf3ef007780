"""Runs the stores of a server in one process beside it: their packages, listings and hashes hold neither the server's interpreter lock nor its memory.

The process starts with the first call. If it dies, the calls in progress fail, and the next call starts another one. Nothing but names, hashes and
folders passes between them: models are downloaded into the cache folder.
"""

import collections.abc
import concurrent.futures
import contextlib
import itertools
import logging
import pathlib
import shutil
import socket
import subprocess
import threading
import time

import msgspec

from naiad.core.processes import child_process
from naiad.core.processes.message_stream import Sender, received
from naiad.errors import ErrorCode, InferenceError, unavailable
from naiad.log_text import Lines
from naiad.repository.polling.fingerprint import Fingerprint
from naiad.repository.store import Checkout, OnBytes, Store, check_name, no_bytes
from naiad.repository.stores import address
from naiad.repository.stores.cache import Lease
from naiad.repository.stores.messages import (
    Alive,
    Batch,
    CheckedOut,
    Downloaded,
    Failed,
    Files,
    Logged,
    Method,
    Names,
    Reply,
    Request,
    Result,
    Settings,
)
from naiad.repository.temporary import TemporaryFolder

_log = logging.getLogger("naiad.repository.stores")

_MODULE = "naiad.repository.stores.child"

_SILENT_S = 60.0
"""A process that has sent nothing for so long is killed; it sends a sign of life every 5 s."""

_LOOK_S = 5.0
_EXIT_S = 5.0
_MOUNT_DIRECTORIES = {
    "s3": "TRITON_AWS_MOUNT_DIRECTORY",
    "gs": "TRITON_GCS_MOUNT_DIRECTORY",
    "as": "TRITON_AZURE_MOUNT_DIRECTORY",
}
"""Triton's variables for the folder of local copies (row 18.30)."""


class StoreProcess:
    """The stores of a server. Thread-safe; all methods block.

    Args:
        directory: the cache folder; "" is a temporary folder, unless one of Triton's variables names one.
        limit: bytes of the cache folder; 0: no limit.
        environ: the environment variables.
    """

    def __init__(
        self, *, directory: str, limit: int, environ: collections.abc.Mapping[str, str]
    ) -> None:
        self._directory = directory
        self._limit = limit
        self._environ = environ
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._link: _Link | None = None
        self._leases: dict[str, tuple[Lease, Settings]] = {}
        self._temporary: TemporaryFolder | None = None
        self._early: dict[str, tuple[_Link, concurrent.futures.Future[Result]]] = {}
        self._closed = False

    def begin(self, locations: collections.abc.Iterable[str]) -> None:
        """Begin to list repositories, for their first `names`: the process imports the packages of the stores while the server imports its own."""
        for location in locations:
            with contextlib.suppress(InferenceError):  # `names` raises it again
                self._early[location] = self._request("names", location)

    def open(self, location: str) -> Store:
        """The store of an address; it is read with the first call.

        Raises:
            InferenceError: it is not an address.
        """
        return RemoteStore(self, location, address.parse(location))

    def call(
        self,
        method: Method,
        location: str,
        names: collections.abc.Sequence[str] = (),
        on_bytes: OnBytes = no_bytes,
    ) -> Result:
        """Call a method of a store in the process.

        Raises:
            InferenceError: as the method raises it; UNAVAILABLE: the process ended, or the server is stopping.
        """
        early = self._early.pop(location, None) if method == "names" else None
        link, reply = early or self._request(method, location, names, on_bytes)
        while True:
            with contextlib.suppress(concurrent.futures.TimeoutError):
                result = reply.result(_LOOK_S)
                break
            link.check()
        if isinstance(result, Failed):
            raise _error(result)
        return result

    def _request(
        self,
        method: Method,
        location: str,
        names: collections.abc.Sequence[str] = (),
        on_bytes: OnBytes = no_bytes,
    ) -> "tuple[_Link, concurrent.futures.Future[Result]]":
        """Send a request; the result comes later."""
        with self._lock:
            if self._closed:
                raise unavailable(
                    "the server is stopping: no model is read any more; use another server"
                )
            settings = self._settings(address.scheme(location))
            if self._link is None or self._link.is_closed:
                self._link = _Link()
            link = self._link
            request = Request(next(self._numbers), method, location, tuple(names), settings)
            reply = link.expect(request.number, on_bytes)
        link.send(request)
        return link, reply

    def close(self) -> None:
        """End the process, fail the calls in progress, and remove the checkouts. Idempotent."""
        with self._lock:
            self._closed = True
            link, leases = self._link, [*self._leases.values()]
            self._leases.clear()
        if link is not None:
            link.close()
        for lease, _ in leases:
            lease.close()
        if self._temporary is not None:
            self._temporary.remove()

    def _settings(self, scheme: str) -> Settings:
        directory = self._directory or self._environ.get(_MOUNT_DIRECTORIES.get(scheme, ""), "")
        if directory not in self._leases:
            root = pathlib.Path(directory).absolute()
            if not directory:
                self._temporary = TemporaryFolder("models")
                root = self._temporary.path
            lease = Lease(root)
            settings = Settings(
                root=str(root),
                lease=str(lease.folder),
                limit=self._limit,
                is_temporary=not directory,
            )
            self._leases[directory] = lease, settings
        return self._leases[directory][1]


class RemoteStore:
    """Implements `Store` and `BatchStore` with a `StoreProcess`.

    Args:
        process: reads the store.
        given: the address as the user wrote it.
        place: its parts.
    """

    def __init__(self, process: StoreProcess, given: str, place: address.Address) -> None:
        self.location = str(place)
        self._given = given
        self._process = process

    def names(self) -> list[str]:
        """See `Store`. A repository without models is a warning: its address may be wrong."""
        result = self._process.call("names", self._given)
        assert isinstance(result, Names), result
        if not result.names:
            _log.warning(
                "%s: there is no folder in it, so no model; if there should be, check the bucket and the prefix",
                self.location,
            )
        return result.names

    def fingerprint(self, name: str) -> Fingerprint:
        """See `Store`."""
        check_name(name)
        (result,) = self.fingerprints([name])
        if isinstance(result, InferenceError):
            raise result
        return result

    def fingerprints(
        self, names: collections.abc.Sequence[str]
    ) -> list[Fingerprint | InferenceError]:
        """See `BatchStore`."""
        batch = self._process.call("fingerprints", self._given, names)
        assert isinstance(batch, Batch), batch
        return [
            result.files if isinstance(result, Files) else _error(result)
            for result in batch.results
        ]

    def checkout(self, name: str, on_bytes: OnBytes = no_bytes) -> Checkout:
        """See `Store`. The folder is a copy."""
        check_name(name)
        result = self._process.call("checkout", self._given, [name], on_bytes)
        assert isinstance(result, CheckedOut), result
        folder = pathlib.Path(result.folder)
        return Checkout(folder, lambda: shutil.rmtree(folder.parent, ignore_errors=True))


class _Link:
    """One process and the calls that wait for it.

    Its thread starts the process and outlives it: the kernel ends the process with the thread that started it.

    Attributes:
        is_closed: whether it takes no more calls.
    """

    def __init__(self) -> None:
        self.is_closed = False
        self._connection, self._theirs = socket.socketpair()
        self._sender = Sender(self._connection)
        self._calls: dict[int, tuple[concurrent.futures.Future[Result], OnBytes]] = {}
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._received = time.monotonic()
        self._thread = threading.Thread(target=self._run, name="store-process", daemon=True)
        self._thread.start()

    def expect(self, number: int, on_bytes: OnBytes) -> "concurrent.futures.Future[Result]":
        """The result of a call that is sent next; it fails when the process ends."""
        future = concurrent.futures.Future[Result]()
        with self._lock:
            if self.is_closed:
                future.set_exception(_ended("has ended"))
            self._calls[number] = future, on_bytes
        return future

    def send(self, request: Request) -> None:
        """Send a request; if the process is gone, its call fails."""
        with contextlib.suppress(OSError):
            self._sender.send(request)

    def check(self) -> None:
        """Kill a process that is stopped or stuck, which fails its calls."""
        if self._process is not None and time.monotonic() - self._received > _SILENT_S:
            _log.error("the store process %d does not respond: it is killed", self._process.pid)
            self._process.kill()

    def close(self) -> None:
        """End the process."""
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        self._thread.join(_EXIT_S)
        if self._thread.is_alive() and self._process is not None:
            self._process.kill()
            self._thread.join(_EXIT_S)

    def _run(self) -> None:
        how = "could not be started"
        try:
            self._process = process = child_process.start(_MODULE, self._theirs, {})
            self._received = time.monotonic()
            with contextlib.suppress(OSError):
                for reply in received(self._connection, msgspec.msgpack.Decoder(Reply)):
                    self._received = time.monotonic()
                    self._take(reply)
            try:
                status = process.wait(_EXIT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                status = process.wait()
            how = child_process.in_words(status)
        except OSError as error:
            how = f"could not be started ({error.strerror})"
        finally:
            with self._lock:
                self.is_closed = True
                calls = [future for future, _ in self._calls.values()]
            self._connection.close()
            for future in calls:
                if not future.done():
                    future.set_exception(_ended(how))

    def _take(self, reply: Reply) -> None:
        match reply:
            case Alive():
                pass
            case Logged():
                _log.log(reply.level, "%s", Lines(reply.message))
            case Downloaded():
                with self._lock:
                    _, on_bytes = self._calls.get(reply.number, (None, no_bytes))
                on_bytes(reply.done, reply.total)
            case _:
                with self._lock:
                    future, _ = self._calls.pop(reply.number)
                future.set_result(reply)


def _error(failed: Failed) -> InferenceError:
    return InferenceError(ErrorCode(failed.code), failed.message)


def _ended(how: str) -> InferenceError:
    return unavailable(
        f"the process that reads the model repositories {how}: it may have run out of memory, see the log of the server and of the machine; "
        "the next load starts another one"
    )
