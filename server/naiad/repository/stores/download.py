"""Downloads objects in parallel ranges, each written to its place in the file; a range whose connection broke goes on where it stopped.

The size is verified, and the checksum where the store has one: the ranges are then read back in order from the page cache, while later ones are
still received. No decision depends on the time but how long to wait before the next attempt.
"""

import collections
import collections.abc
import concurrent.futures
import os
import random
import threading

from naiad.core.processes.inherited import be_free
from naiad.repository.store import OnBytes
from naiad.repository.stores import checksums
from naiad.repository.stores.objects import ObjectClient, StoredObject, StoreError

RANGE_BYTES = 8 << 20
THREADS = 16
_AHEAD = 2 * THREADS
"""Ranges of one object that are requested before the first of them is complete: a large object leaves room for others."""

_ATTEMPTS = 6
"""Without one byte between them; 15 s together."""

_VERIFICATIONS = 3
"""Downloads of an object until its checksum is right."""

_PIECE = 1 << 20
_CHECK = "; check the store, and proxies between it and this machine"

Advance = collections.abc.Callable[[int], None]
"""Receives the number of bytes that were written since the last call; negative for bytes that are downloaded again."""


class Progress:
    """Adds up what several threads have written.

    Args:
        total: bytes.
        on_bytes: receives the sum after each change; thread-safe.
    """

    def __init__(self, total: int, on_bytes: OnBytes) -> None:
        self._total = total
        self._on_bytes = on_bytes
        self._done = 0
        self._adding = threading.Lock()

    def advance(self, count: int) -> None:
        """Add so many bytes."""
        with self._adding:
            self._done += count
            self._on_bytes(self._done, self._total)


def backoff_seconds(attempt: int) -> float:
    """How long to wait after so many attempts without a byte: up to 0.5, 1, 2, 4, 8 s, with jitter."""
    return random.uniform(0.25, 0.5) * (1 << attempt)  # noqa: S311 - not a secret


class Downloader:
    """Downloads objects; in several threads at the same time.

    Args:
        backoff: seconds to wait after an attempt, from its number, 0 for the first.
        range_bytes: size of a request.
    """

    def __init__(
        self,
        *,
        backoff: collections.abc.Callable[[int], float] = backoff_seconds,
        range_bytes: int = RANGE_BYTES,
    ) -> None:
        self._backoff = backoff
        self._range_bytes = range_bytes
        self._threads = concurrent.futures.ThreadPoolExecutor(THREADS, "range", initializer=be_free)

    def download(
        self, client: ObjectClient, stored: StoredObject, file: int, advance: Advance
    ) -> None:
        """Write the content of an object into a file, a descriptor; blocks until it is complete and verified.

        Raises:
            StoreError: it cannot be read, has changed, or its checksum is wrong each time.
            OSError: the file cannot be written.
        """
        os.ftruncate(file, stored.size)
        for _ in range(_VERIFICATIONS):
            transfer = _Transfer(client, stored, file, advance, self._backoff)
            expected, actual = self._verified(transfer)
            if actual == expected:
                return
            advance(-stored.size)
        raise StoreError(
            f"{stored.key}: the content does not have its checksum ({expected}, received {actual}); upload it again, or check the "
            "store, and proxies between it and this machine"
        )

    def close(self) -> None:
        """Begin no further range."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _verified(self, transfer: "_Transfer") -> tuple[str, str]:
        """Download once; the checksum of the store and that of the file, both "" without one."""
        size, step = transfer.stored.size, self._range_bytes
        waiting = collections.deque(
            (start, min(start + step, size)) for start in range(0, size, step)
        )
        running = collections.deque[concurrent.futures.Future[tuple[int, int]]]()
        try:
            for _ in range(min(_AHEAD, len(waiting))):
                running.append(self._threads.submit(transfer.receive, *waiting.popleft()))
            expected = transfer.checksum()
            algorithm = expected.partition(":")[0]
            hasher = checksums.hasher(algorithm) if expected else None
            while running:
                start, end = running.popleft().result()
                if waiting:
                    running.append(self._threads.submit(transfer.receive, *waiting.popleft()))
                if hasher is not None:
                    for position in range(start, end, _PIECE):
                        hasher.update(
                            os.pread(transfer.file, min(_PIECE, end - position), position)
                        )
        finally:
            # After a failure the caller closes the file: no thread may write into its descriptor then.
            transfer.stop.set()
            for future in running:
                future.cancel()
            concurrent.futures.wait(running)
        return expected, f"{algorithm}:{hasher.hexdigest()}" if hasher is not None else ""


class _Transfer:
    """One download of one object.

    Attributes:
        stop: set once it has ended, or failed.
    """

    def __init__(
        self,
        client: ObjectClient,
        stored: StoredObject,
        file: int,
        advance: Advance,
        backoff: collections.abc.Callable[[int], float],
    ) -> None:
        self.stored = stored
        self.file = file
        self.stop = threading.Event()
        self._client = client
        self._advance = advance
        self._backoff = backoff

    def checksum(self) -> str:
        """The checksum that the store has, "" without one."""
        attempt = 0
        while True:
            try:
                return self._client.checksum(self.stored) if self.stored.size else ""
            except StoreError as error:
                attempt += 1
                if not error.retry or attempt >= _ATTEMPTS:
                    raise
            self.stop.wait(self._backoff(attempt))

    def receive(self, start: int, end: int) -> tuple[int, int]:
        """Write the bytes [start, end) of the object; gives these back."""
        position, attempt = start, 0
        while position < end and not self.stop.is_set():
            before = position
            try:
                for piece in self._client.read(self.stored, position, end):
                    if self.stop.is_set():
                        break
                    position = self._write(piece, position, end)
            except StoreError as error:
                if not error.retry:
                    raise
                broken = error
            else:
                broken = StoreError(
                    f"{self.stored.key}: the store sends fewer bytes than requested{_CHECK}",
                    retry=True,
                )
            attempt = 0 if position > before else attempt + 1
            if attempt >= _ATTEMPTS:
                raise broken
            if position < end:
                self.stop.wait(self._backoff(attempt))
        return start, end

    def _write(self, piece: bytes, position: int, end: int) -> int:
        if position + len(piece) > end:
            raise StoreError(
                f"{self.stored.key}: the store sends more bytes than requested{_CHECK}"
            )
        view = memoryview(piece)
        while view:
            written = os.pwrite(self.file, view, position)
            position += written
            view = view[written:]
        self._advance(len(piece))
        return position
