"""Reads the model repositories in its own threads, with a timeout: a mount that hangs blocks neither requests nor the server.

A system call into a mount that hangs cannot be cancelled. So its thread is abandoned, the number of these threads is bounded, and no
other work uses them. Calls that come while a listing runs share the next one.
"""

import asyncio
import collections.abc
import concurrent.futures
import pathlib
import typing

from naiad.errors import unavailable
from naiad.repository.fingerprint import Fingerprint, fingerprint
from naiad.repository.store import Store

TIMEOUT_SECONDS = 30.0
"""Large repositories on slow disks take a second."""

_LOOKING_THREADS = 8

_Result = typing.TypeVar("_Result")
_Folders = list[pathlib.Path]


class RepositoryReader:
    """The stores, as the event loop sees them.

    Args:
        stores: where models live.
        look: scans a model's folder.
        timeout_seconds: limit of a listing, and of the scan of a model's folder; None: no limit.
    """

    def __init__(
        self,
        stores: collections.abc.Sequence[Store],
        *,
        look: collections.abc.Callable[[pathlib.Path], Fingerprint] = fingerprint,
        timeout_seconds: float | None = TIMEOUT_SECONDS,
    ) -> None:
        self._timeout_seconds = timeout_seconds
        self._stores = stores
        self._look = look
        self._listers = concurrent.futures.ThreadPoolExecutor(1, "repository-list")
        self._lookers = concurrent.futures.ThreadPoolExecutor(_LOOKING_THREADS, "repository-look")
        self._listing: asyncio.Future[_Folders] | None = None
        self._next: asyncio.Future[_Folders] | None = None

    @property
    def locations(self) -> str:
        """For messages."""
        return ", ".join(store.location for store in self._stores)

    async def folders(self) -> _Folders:
        """The folders of all models.

        Raises:
            InferenceError: a repository cannot be read; UNAVAILABLE when it does not answer in time.
        """
        return await self._in_time(self._new_listing(), self.locations)

    async def fingerprint(self, folder: pathlib.Path) -> Fingerprint:
        """The fingerprint of a model's folder.

        Raises:
            InferenceError: UNAVAILABLE when it does not answer in time.
        """
        loop = asyncio.get_running_loop()
        look = loop.run_in_executor(self._lookers, self._look, folder)
        try:
            return await self._in_time(look, str(folder))
        finally:
            # One that has not begun would wait behind those that hang, and each further load would add one more.
            look.cancel()

    async def fingerprints(
        self, folders: collections.abc.Sequence[pathlib.Path]
    ) -> dict[str, Fingerprint]:
        """The fingerprints of many folders, by name, and without a timeout: for the start of the server."""
        loop = asyncio.get_running_loop()
        found = await asyncio.gather(
            *(loop.run_in_executor(self._lookers, self._look, folder) for folder in folders)
        )
        return {folder.name: look for folder, look in zip(folders, found, strict=True)}

    def close(self) -> None:
        """Begin nothing more, and do not wait for threads that hang."""
        for executor in (self._listers, self._lookers):
            executor.shutdown(wait=False, cancel_futures=True)

    def _new_listing(self) -> asyncio.Future[_Folders]:
        """A listing that begins now, or after the one that runs."""
        if self._listing is None:
            self._listing = self._list()
            return self._listing
        if self._next is None:
            self._next = asyncio.get_running_loop().create_future()
        return self._next

    def _list(self) -> asyncio.Future[_Folders]:
        listing = asyncio.get_running_loop().run_in_executor(self._listers, self._list_all)
        listing.add_done_callback(self._listed)
        return listing

    def _listed(self, listing: asyncio.Future[_Folders]) -> None:
        if not listing.cancelled():
            listing.exception()  # or asyncio would log one that came too late for every caller
        following, self._listing, self._next = self._next, None, None
        if following is not None and not following.done():
            self._listing = self._list()
            self._listing.add_done_callback(lambda done: _copy(done, following))

    def _list_all(self) -> _Folders:
        return [folder for store in self._stores for folder in store.model_folders()]

    async def _in_time(self, work: asyncio.Future[_Result], what: str) -> _Result:
        done, _ = await asyncio.wait({work}, timeout=self._timeout_seconds)
        if done:
            return work.result()
        raise unavailable(
            f"{what} could not be read within {self._timeout_seconds:g} s: the disk or mount does not respond; check it "
            "and try again"
        )


def _copy(done: asyncio.Future[_Folders], following: asyncio.Future[_Folders]) -> None:
    if following.done():
        return
    if done.cancelled():
        following.cancel()
    elif (error := done.exception()) is not None:
        following.set_exception(error)
        following.exception()
    else:
        following.set_result(done.result())
