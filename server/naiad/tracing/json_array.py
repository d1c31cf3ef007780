"""A file that holds a JSON array and grows: whole after each write, whatever fails."""

import io
import os
import pathlib
import stat


class JsonArray:
    """A file that holds a JSON array, whole after each write. A file that is there already is replaced, unless the array goes on. Raises OSError."""

    def __init__(self, path: str, *, goes_on: bool = False) -> None:
        try:
            self._file = io.FileIO(path, "r+" if goes_on else "w")
        except FileNotFoundError:
            self._file = io.FileIO(path, "w")
        self._seeks = self._file.seekable()
        # Where the bracket is that ends the array; 0: it has not begun.
        self._end = self._found_end() if self._seeks else 0

    def _found_end(self) -> int:
        size = self._file.seek(0, io.SEEK_END)
        if not size or not self._file.readable():
            return size
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
        is_cut = stat.S_ISREG(here.st_mode) and here.st_size < self._end
        return os.path.samestat(here, there) and not is_cut

    def append(self, records: bytes) -> None:
        """Write further records; after an error the file has those from before."""
        if records:
            self.append_framed(memoryview(bytearray(b",%b]" % records)))

    def append_framed(self, records: memoryview) -> None:
        """As `append`, of records that have a comma in front, which may be changed, and a bracket behind."""
        if not self._end:
            records[0] = ord("[")
        rest = records if self._seeks else records[:-1]
        size = len(rest)
        if self._seeks:
            self._file.seek(self._end)
        try:
            while rest:
                rest = rest[self._file.write(rest) :]
        except OSError:
            if self._seeks:
                self._file.truncate(self._end)
                if self._end:
                    self._file.seek(self._end)
                    self._file.write(b"]")
            raise
        self._end += size - 1

    def close(self) -> None:
        """End the array."""
        if not self._seeks and self._end:
            self._file.write(b"]")
        self._file.close()
