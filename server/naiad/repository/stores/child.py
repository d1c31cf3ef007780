"""The store process: `python -m naiad.repository.stores.child DESCRIPTOR PARENT`, started by `process.StoreProcess`.

It runs the packages of the stores, listings, hashing and downloads, so that they share neither the interpreter lock nor the memory of the server. One
thread per call; the main thread reads requests. It ends with the server: at the end of the socket, or by a signal of the kernel.
"""

import collections.abc
import concurrent.futures
import contextlib
import logging
import os
import pathlib
import shutil
import threading
import time

import msgspec
from typing_extensions import override

from naiad.core.clock import SystemClock
from naiad.core.processes import child_process
from naiad.core.processes.message_stream import Sender, received
from naiad.errors import InferenceError, internal
from naiad.repository.stores import address
from naiad.repository.stores.cache import LISTINGS, Cache
from naiad.repository.stores.clients import connect
from naiad.repository.stores.clients.snapshots import Folders
from naiad.repository.stores.download import Downloader
from naiad.repository.stores.messages import (
    Alive,
    Batch,
    CheckedOut,
    Downloaded,
    Failed,
    Files,
    Logged,
    Names,
    Request,
    Result,
    Settings,
)
from naiad.repository.stores.object_store import ObjectStore

_log = logging.getLogger("naiad.repository.stores")

_THREADS = 96
"""More than the server's threads that read and check out."""

_ALIVE_S = 5.0
_PROGRESS_NS = 100_000_000
"""Between two messages about the progress of a checkout."""


class Stores:
    """Opens every store once."""

    def __init__(self) -> None:
        self._clock = SystemClock()
        self._downloader = Downloader()
        self._caches: dict[str, Cache] = {}
        self._stores: dict[str, ObjectStore] = {}
        self._opening = threading.Lock()
        self.settings = set[Settings]()

    def open(self, location: str, settings: Settings) -> ObjectStore:
        """The store of an address.

        Raises:
            InferenceError: the address is wrong, or a package is missing.
        """
        with self._opening:
            store = self._stores.get(location)
            if store is None:
                place = address.parse(location)
                store = ObjectStore(
                    place,
                    connect(
                        place,
                        Folders(
                            pathlib.Path(settings.lease), pathlib.Path(settings.root, LISTINGS)
                        ),
                    ),
                    self._cache(settings),
                    pathlib.Path(settings.lease),
                    downloader=self._downloader,
                    clock=self._clock,
                )
                self._stores[location] = store
            return store

    def remove(self) -> None:
        """Remove the checkouts of the server, and a folder that was only its own."""
        for settings in self.settings:
            folder = pathlib.Path(settings.root if settings.is_temporary else settings.lease)
            with contextlib.suppress(OSError):
                # Threads that still write find nothing to write to.
                folder = folder.rename(folder.with_name(f"{folder.name}.old"))
            shutil.rmtree(folder, ignore_errors=True)

    def _cache(self, settings: Settings) -> Cache:
        if settings.root not in self._caches:
            cache = Cache(
                pathlib.Path(settings.root),
                limit=settings.limit,
                is_temporary=settings.is_temporary,
                clock=self._clock,
            )
            cache.clean()
            self._caches[settings.root] = cache
            self.settings.add(settings)
        return self._caches[settings.root]


class Calls:
    """Answers requests.

    Args:
        sender: to the server.
    """

    def __init__(self, sender: Sender) -> None:
        self.stores = Stores()
        self._sender = sender

    def answer(self, request: Request) -> None:
        """Call a method and send its result."""
        result: Result
        try:
            result = self._result(request)
        except InferenceError as error:
            result = Failed(request.number, error.code.value, error.message)
        except Exception as error:  # noqa: BLE001 - whatever it is, the server gets a reply
            _log.exception("%s of a model repository failed", request.method)
            failure = internal(
                f"reading the model repository failed: {type(error).__name__}; the log has more"
            )
            result = Failed(request.number, failure.code.value, failure.message)
        self._send(result)

    def alive(self) -> None:
        """Send a sign of life every few seconds, for ever."""
        while True:
            self._send(Alive())
            time.sleep(_ALIVE_S)

    def _result(self, request: Request) -> Result:
        store = self.stores.open(request.location, request.settings)
        match request.method:
            case "names":
                return Names(request.number, store.names())
            case "fingerprints":
                results = [_fingerprint(request.number, store, name) for name in request.names]
                return Batch(request.number, results)
            case "checkout":
                (name,) = request.names
                folder = store.checkout(name, self._progress(request.number)).folder
                return CheckedOut(request.number, str(folder))

    def _progress(self, number: int) -> collections.abc.Callable[[int, int], None]:
        sent_ns = 0

        def on_bytes(done: int, total: int) -> None:
            nonlocal sent_ns
            now = time.monotonic_ns()
            if now - sent_ns >= _PROGRESS_NS or done == total:
                sent_ns = now
                self._send(Downloaded(number, done, total))

        return on_bytes

    def _send(self, message: msgspec.Struct) -> None:
        with contextlib.suppress(OSError):  # the server is gone: so is this process in a moment
            self._sender.send(message)


def _fingerprint(number: int, store: ObjectStore, name: str) -> Files | Failed:
    try:
        return Files(dict(store.fingerprint(name)))
    except InferenceError as error:
        return Failed(number, error.code.value, error.message)


class _ToServer(logging.Handler):
    """Log lines go to the server's log."""

    def __init__(self, sender: Sender) -> None:
        super().__init__()
        self._sender = sender

    @override
    def emit(self, record: logging.LogRecord) -> None:
        with contextlib.suppress(OSError):
            self._sender.send(Logged(record.levelno, self.format(record)))


def main() -> None:
    """Answer requests until the server is gone."""
    connection = child_process.connect()
    sender = Sender(connection)
    logging.getLogger("naiad").addHandler(_ToServer(sender))
    logging.getLogger("naiad").setLevel(logging.INFO)
    calls = Calls(sender)
    threading.Thread(target=calls.alive, daemon=True).start()
    executor = concurrent.futures.ThreadPoolExecutor(_THREADS, "call")
    try:
        for request in received(connection, msgspec.msgpack.Decoder(Request)):
            executor.submit(calls.answer, request)
    finally:
        calls.stores.remove()
        os._exit(0)  # threads that wait for a store do not keep the process


if __name__ == "__main__":
    main()
