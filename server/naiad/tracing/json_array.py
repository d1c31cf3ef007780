"""A file that holds a JSON array and grows: whole after each write, whatever fails."""

import contextlib
import io
import os
import pathlib
import stat

_EMPTY = b"[]"


def cut_off(path: str, *, inode: int, end: int) -> None:
    """End an array where it was whole, after a process that wrote it has ended in the middle; not a file that has its path since. Raises OSError."""
    with io.FileIO(path, "r+") as file:
        if os.fstat(file.fileno()).st_ino != inode or file.seek(0, io.SEEK_END) <= end:
            return
        _end(file, end)


def _end(file: io.FileIO, end: int) -> None:
    """End an array at a place, where there was one; else it is an empty one. Raises OSError."""
    file.truncate(end)
    file.seek(end)
    file.write(b"]" if end else _EMPTY)


class JsonArray:
    """A file that holds a JSON array, whole after each write. A file that is there already is replaced, unless the array goes on. Raises OSError.

    Attributes:
        is_regular: whether it is a file on a disk.
        inode: its number in the file system.
        end: where the bracket is that ends the array; 0: it is empty, or has not begun.
    """

    def __init__(self, path: str, *, goes_on: bool = False) -> None:
        try:
            self._file = io.FileIO(path, "r+" if goes_on else "w")
        except FileNotFoundError:
            self._file = io.FileIO(path, "w")
        self._seeks = self._file.seekable()
        status = os.fstat(self._file.fileno())
        self.is_regular, self.inode = stat.S_ISREG(status.st_mode), status.st_ino
        self.end = self._found_end() if self._seeks else 0

    def _found_end(self) -> int:
        size = self._file.seek(0, io.SEEK_END)
        if not size or not self._file.readable():
            return size
        if size == len(_EMPTY):
            return 0
        self._file.seek(size - 1)
        # There was no room for the bracket, either, when a write failed.
        return size - (self._file.read(1) == b"]")

    def is_at(self, path: str) -> bool:
        """Whether it is what this path names, with all that was written: files are moved, removed and cut off."""
        here = os.fstat(self._file.fileno())
        try:
            there = pathlib.Path(path).stat()
        except FileNotFoundError:
            return False
        is_cut = stat.S_ISREG(here.st_mode) and here.st_size < self.end
        return os.path.samestat(here, there) and not is_cut

    def append(self, records: bytes) -> None:
        """Write further records; after an error the file has those from before, or is an empty array if there is room for one."""
        if records:
            self.append_framed(memoryview(bytearray(b",%b]" % records)))

    def append_framed(self, records: memoryview) -> None:
        """As `append`, of records that have a comma in front, which may be changed, and a bracket behind."""
        if not self.end:
            records[0] = ord("[")
        rest = records if self._seeks else records[:-1]
        size = len(rest)
        if self._seeks:
            self._file.seek(self.end)
        try:
            while rest:
                rest = rest[self._file.write(rest) :]
        except OSError:
            if self._seeks:
                with contextlib.suppress(OSError):  # the first error says what is wrong
                    _end(self._file, self.end)
            raise
        self.end += size - 1

    def close(self) -> None:
        """End the array."""
        if not self._seeks and self.end:
            self._file.write(b"]")
        self._file.close()
