"""Writes traces to their files. A file that was moved, removed or cut off is begun again. Logs nothing: what was not written is its answer."""

import collections.abc
import contextlib
import errno
import traceback

from naiad.tracing.json_array import JsonArray
from naiad.tracing.usual import Usual, UsualTexts
from naiad.tracing.writing import Fault, Place, Records, Written


class FileWriter:
    """Implements `Writer`.

    Attributes:
        begun: files that were written before, which go on behind what they have.
    """

    def __init__(self, begun: collections.abc.Iterable[str] = ()) -> None:
        self.begun = set(begun)
        self._texts = UsualTexts()
        self._open: dict[str, JsonArray] = {}
        self._looked = set[str]()
        self._faults: list[Fault] = []

    def usual(self, path: str, traces: Usual) -> None:
        """See `Writer`."""
        with self._reported(path, len(traces.numbers)):
            # Whether the file is still there is asked once for all that are written together.
            array = self._open.get(path) if path in self._looked else None
            (array or self._ready(path)).append_framed(self._texts.framed(traces))

    def records(self, piece: Records) -> None:
        """See `Writer`."""
        with self._reported(piece.path, piece.traces):
            if piece.grows:
                self._ready(piece.path).append(piece.records)
                return
            with contextlib.closing(JsonArray(piece.path)) as array:
                array.append(piece.records)

    def written(self) -> Written:
        """See `Writer`."""
        self._looked.clear()
        faults, self._faults = self._faults, []
        places = {path: Place(array.inode, array.end) for path, array in self._open.items()}
        return Written(faults, places)

    def may_move(self) -> bool:
        """Whether another process could go on with its files: a pipe has its end only once, and a descriptor a number in this process only."""
        return all(
            array.is_regular and path.isprintable() and not path.startswith(("/dev/", "/proc/"))
            for path, array in self._open.items()
        )

    def close(self) -> None:
        """See `Writer`."""
        for array in self._open.values():
            with contextlib.suppress(OSError):
                array.close()
        self._open.clear()

    def _ready(self, path: str) -> JsonArray:
        """The array of a file."""
        array = self._open.get(path)
        if array is not None and not array.is_at(path):
            del self._open[path]
            array.close()
            array = None
        if array is None:
            # One that was written before goes on, once there is room again.
            array = self._open[path] = JsonArray(path, goes_on=path in self.begun)
            self.begun.add(path)
        self._looked.add(path)
        return array

    @contextlib.contextmanager
    def _reported(self, path: str, traces: int) -> collections.abc.Iterator[None]:
        try:
            yield
        except OSError as error:
            if array := self._open.pop(path, None):
                with contextlib.suppress(OSError):
                    array.close()
            words = error.strerror or str(error)
            self._faults.append(Fault(path, traces, error.errno or errno.EIO, words))
        except Exception:  # noqa: BLE001 - such as no memory for a text; what else waits is written
            self._faults.append(Fault(path, traces, 0, traceback.format_exc()))
