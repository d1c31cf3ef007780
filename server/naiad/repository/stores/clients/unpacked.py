"""What tarballs held, as the objects of a repository."""

import collections.abc

from naiad.repository.stores.clients.unpacking import UnpackedFile
from naiad.repository.stores.objects import ChangedError, StoredObject

_PIECE = 1 << 20


class UnpackedObjects:
    """The files of tarballs as objects; the version of each is the SHA-256 of its content.

    Args:
        entries: files by their keys; None for a folder without entries, whose key ends with a slash.
        where: what messages call the source.
    """

    def __init__(
        self,
        entries: collections.abc.Mapping[str, UnpackedFile | None],
        *,
        where: str,
    ) -> None:
        self._where = where
        self._paths = {(key, file.sha256): file.path for key, file in entries.items() if file}
        self.objects = [
            StoredObject(key, file.size, file.sha256, file.modified_ns)
            if file
            else StoredObject(key, 0, "")
            for key, file in entries.items()
        ]

    def read(self, stored: StoredObject, start: int, end: int) -> collections.abc.Iterator[bytes]:
        """The bytes of one of them."""
        path = self._paths.get((stored.key, stored.version))
        try:
            file = path.open("rb") if path else None
        except FileNotFoundError:  # the next version has replaced it
            file = None
        if file is None:
            raise ChangedError(f"{self._where}: {stored.key} was replaced since it was listed")
        with file:
            file.seek(start)
            while start < end and (piece := file.read(min(_PIECE, end - start))):
                start += len(piece)
                yield piece
