"""Clients' memory on GPUs as the server uses it: implements `core.cuda_regions.GpuMemory` by a process that has a CUDA context.

The process starts with the first registration, and again with the next call if it has ended: the call that it had then fails. A thread of the server sends it one call
after another; callers wait in threads of their own. Every wait ends: with the answer, the end of the process, a time limit, or `close`.
"""

import asyncio
import concurrent.futures
import contextlib
import hashlib
import logging
import queue
import select
import socket
import subprocess
import threading
import typing
import weakref

import numpy as np

from naiad.core.cuda_regions import Opened
from naiad.core.processes import child_process
from naiad.errors import ErrorCode, InferenceError, internal, invalid, unavailable
from naiad.hosts.cuda_regions.messages import (
    CLOSE,
    COPY,
    ENDS,
    FAILED,
    NUMBER,
    OPEN,
    OWNER_ENDED,
    READ,
    WRITE,
    Part,
)
from naiad.hosts.device_tensors import Borrower, OwnedLease
from naiad.hosts.link import codec
from naiad.hosts.link.link import Link, LinkBrokenError, SegmentLostError
from naiad.hosts.link.payload import Payload
from naiad.hosts.worker.gpu.handles import CLIENTS

_MODULE = "naiad.hosts.cuda_regions"
_SECONDS = 60.0
"""A call may take so long; the first one makes a CUDA context, which takes a second or two on a machine with many GPUs."""

_END_S = 5.0

_log = logging.getLogger(__name__)

Answer = tuple[bytes, typing.Any]


class ClientLease(OwnedLease):
    """Keeps a client's allocation open, in the process and in the workers that were sent tensors in it; ends in any thread."""

    __slots__ = ("__weakref__",)


class _Borrowers:
    """The workers that may have opened a client's allocation. On the event loop."""

    def __init__(self) -> None:
        self._borrowers: weakref.WeakSet[Borrower] = weakref.WeakSet()

    def lent_to(self, other: Borrower) -> None:
        """See `MemoryOwner`."""
        self._borrowers.add(other)

    def end(self, owner: int) -> None:
        """The allocation is not used any more."""
        for borrower in tuple(self._borrowers):
            borrower.owner_ended(owner)


class _Call:
    """A message and the future of its answer; None: nothing waits."""

    __slots__ = ("header", "kind", "payload", "result")

    def __init__(
        self,
        kind: int,
        header: bytes,
        payload: Payload | None,
        result: "concurrent.futures.Future[Answer] | None",
    ) -> None:
        self.kind = kind
        self.header = header
        self.payload = payload
        self.result = result


class CudaMemory:
    """Implements `GpuMemory`.

    Args:
        loop: the event loop.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        # Its `put` may be called by a destructor in the middle of another one.
        self._calls: queue.SimpleQueue[_Call | None] = queue.SimpleQueue()
        self._making = threading.Lock()
        self._thread: threading.Thread | None = None
        self._closed = False
        self._process: subprocess.Popen[bytes] | None = None
        self._link: Link | None = None
        self._leases: weakref.WeakValueDictionary[bytes, ClientLease] = (
            weakref.WeakValueDictionary()
        )

    def open(self, name: str, handle: bytes, device: int, size: int) -> Opened:
        """See `GpuMemory`."""
        lease = self._lease(handle)
        try:
            header, _ = self._call(OPEN, Part(handle, device, 0, size).packed())
        except InferenceError as error:
            if error.code is not ErrorCode.INVALID_ARG:
                raise
            raise invalid(
                f"failed to register shared memory region '{name}': invalid args: {error.message}"
            ) from None
        (number,) = NUMBER.unpack_from(header)
        return Opened(handle, number, bytes(header[NUMBER.size :]), _owner(handle), lease)

    def read(self, opened: Opened, offset: int, size: int) -> "np.ndarray[typing.Any, typing.Any]":
        """See `GpuMemory`."""
        part = Part(opened.handle, opened.device, offset, size).packed()
        _, content = self._call(READ, part)
        return np.frombuffer(content, np.uint8, size)

    def write(
        self, opened: Opened, offset: int, data: "np.ndarray[typing.Any, typing.Any]"
    ) -> None:
        """See `GpuMemory`."""
        payload = Payload()
        payload.add(data)
        part = Part(opened.handle, opened.device, offset, data.nbytes).packed()
        self._call(WRITE, part, payload)

    def copy(self, opened: Opened, offset: int, descriptor: bytes, lease: typing.Any) -> None:
        """See `GpuMemory`."""
        if isinstance(lease, OwnedLease):
            self._loop.call_soon_threadsafe(lease.owner.lent_to, self)
        part = Part(opened.handle, opened.device, offset, 0).packed()
        self._call(COPY, part + descriptor)

    def owner_ended(self, owner: int) -> None:
        """A worker process has ended whose memory may be open."""
        self._calls.put(_Call(OWNER_ENDED, NUMBER.pack(owner), None, None))

    async def close(self) -> None:
        """End the process and the thread; calls that wait fail. Idempotent."""
        with self._making:
            self._closed = True
            thread = self._thread
        self._calls.put(None)
        if thread is not None:
            await asyncio.to_thread(thread.join, _END_S)
            self._kill()  # if it does not answer, and the thread waits for it

    def _lease(self, handle: bytes) -> ClientLease:
        borrowers, owner = _Borrowers(), _owner(handle)

        def end() -> None:
            self._calls.put(_Call(CLOSE, Part(handle, 0, 0, 0).packed(), None, None))
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(borrowers.end, owner)

        with self._making:
            lease = self._leases.get(handle)
            if lease is None:
                lease = self._leases[handle] = ClientLease(end, borrowers)
        return lease

    def _call(self, kind: int, header: bytes, payload: Payload | None = None) -> Answer:
        result: concurrent.futures.Future[Answer] = concurrent.futures.Future()
        with self._making:
            if self._closed:
                raise _closing()
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="naiad-cuda-regions", daemon=True
                )
                self._thread.start()
            self._calls.put(_Call(kind, header, payload, result))
        return result.result()

    def _run(self) -> None:
        while (call := self._calls.get()) is not None:
            self._answer(call)
            del call  # or what it carries would stay until the next one
        while True:
            try:
                call = self._calls.get_nowait()
            except queue.Empty:
                break
            if call is not None and call.result is not None:
                call.result.set_exception(_closing())
        self._drop()

    def _answer(self, call: _Call) -> None:
        if call.result is None:
            # What a process had open is closed with it.
            if self._link is not None:
                with contextlib.suppress(InferenceError):
                    self._ask(self._link, call)
            return
        try:
            answer = self._ask(self._started(), call)
        except InferenceError as error:
            call.result.set_exception(error)
        except Exception as error:  # noqa: BLE001 - its caller waits
            _log.exception("clients' memory on a GPU")
            call.result.set_exception(internal(f"{type(error).__name__}: {error}"))
        else:
            call.result.set_result(answer)

    def _started(self) -> Link:
        """The link to the process, which is started if there is none."""
        if self._process is not None and self._process.poll() is not None:
            self._drop()
        if self._link is None:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            try:
                self._process = child_process.start(_MODULE, theirs, {"OPENBLAS_NUM_THREADS": "1"})
            except OSError as error:
                ours.close()
                raise unavailable(
                    f"the process that opens clients' memory on GPUs cannot be started: {error}; send the request again later"
                ) from None
            self._link = Link(ours)
        return self._link

    def _ask(self, link: Link, call: _Call) -> Answer:
        """Send a message and wait for its answer.

        Raises:
            InferenceError: the answer is one, or none came.
        """
        try:
            try:
                link.notify(call.kind, call.header, call.payload)
            except LinkBrokenError:  # it has ended since the last call
                self._drop()
                link = self._started()
                link.notify(call.kind, call.header, call.payload)
            waiting = select.poll()
            waiting.register(link.fileno(), select.POLLIN)
            if not waiting.poll(_SECONDS * 1_000):
                self._kill()
                raise self._lost(f"did not answer for {_SECONDS:g} s and was killed")
            kind, _, header = link.receive()
            content = link.take_notification()
        except LinkBrokenError:
            raise self._lost("") from None
        except (OSError, MemoryError, SegmentLostError) as error:
            raise unavailable(
                f"there is no memory or file descriptor for a tensor on a GPU: {error}; send the request again later"
            ) from None
        if kind in (FAILED, ENDS):
            if kind == ENDS:
                _log.error(
                    "the process that opens clients' memory on GPUs cannot use a GPU any more; it is started again"
                )
                self._drop()
            failure = codec.error_of(codec.read_json(header))
            assert failure is not None
            raise failure
        return bytes(header), content

    def _lost(self, how: str) -> InferenceError:
        status = self._drop()
        how = how or child_process.in_words(status)
        _log.error("the process that opens clients' memory on GPUs %s; it is started again", how)
        return unavailable(
            f"the process that opens clients' memory on GPUs {how} while it had this request; send it again"
        )

    def _kill(self) -> None:
        process = self._process
        if process is not None:
            process.kill()

    def _drop(self) -> int:
        """Close the link and end the process; returns how it ended."""
        link, self._link = self._link, None
        process, self._process = self._process, None
        if link is not None:
            link.close()
        if process is None:
            return 0
        try:
            return process.wait(_END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()


def _owner(handle: bytes) -> int:
    """By which number workers know a client's memory: the same each time that it is registered, and none of a worker's."""
    return CLIENTS | int.from_bytes(hashlib.blake2b(handle, digest_size=8).digest())


def _closing() -> InferenceError:
    return unavailable("the server is shutting down; send the request to another one")
