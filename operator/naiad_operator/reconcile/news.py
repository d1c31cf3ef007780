"""What was heard of services and has not been looked at yet: the newest version of each, so that a look need not ask for it again.

What a watch says a moment ago is as good as what the API server would answer now: whatever is written after it comes as news of its
own, and a status that is meant for an older version is refused for it. Only when it has waited for long (a watch that has fallen silent without
breaking would not be noticed by then) it is asked for. A thousand services at once, or at a start, are a thousand requests fewer.

A version that was looked at already, or that we have written ourselves, is no news.
"""

import collections.abc
import dataclasses
import typing

import msgspec

from naiad_operator.cluster.child_store import is_newer
from naiad_operator.queue import Key

Manifest = collections.abc.Mapping[str, typing.Any]
Clock = collections.abc.Callable[[], float]

FRESH_S = 60.0
"""How long what was heard is believed."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Heard:
    version: str
    at: float
    body: bytes


class News:
    """Remembers what was heard until it is taken. Bodies are kept as JSON without `managedFields`: that is a fifth of their size as objects.

    Args:
        clock: monotonic, in seconds.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._heard: dict[Key, _Heard] = {}
        self._seen: dict[Key, str] = {}

    def hear(self, key: Key, manifest: Manifest, *, listed: bool = False) -> bool:
        """Takes a version in.

        Args:
            key: the service.
            manifest: as the API server has it.
            listed: whether a list said it and not a watch. A list after a restored backup may go back in versions; a watch never does.

        Returns:
            Whether it is worth a look.
        """
        metadata = manifest["metadata"]
        version = str(metadata.get("resourceVersion") or "")
        seen = self._seen.get(key)
        if seen is not None and (version == seen if listed else not is_newer(version, seen)):
            return False
        kept = {name: value for name, value in metadata.items() if name != "managedFields"}
        body = msgspec.json.encode({**manifest, "metadata": kept})
        self._heard[key] = _Heard(version, self._clock(), body)
        return True

    def take(self, key: Key) -> dict[str, typing.Any] | None:
        """What was heard last of a service; None if that was looked at already or a while ago."""
        heard = self._heard.pop(key, None)
        if heard is None or self._clock() - heard.at > FRESH_S:
            return None
        manifest: dict[str, typing.Any] = msgspec.json.decode(heard.body)
        return manifest

    def saw(self, key: Key, version: str) -> None:
        """This version is known: it was looked at, or it is what we made of the one that was."""
        self._seen[key] = version
        heard = self._heard.get(key)
        if heard is not None and not is_newer(heard.version, version):
            del self._heard[key]

    def gone(self, key: Key) -> None:
        """What was heard of it holds no more."""
        self._heard.pop(key, None)

    def forget(self, key: Key) -> None:
        """The service is no more."""
        self._heard.pop(key, None)
        self._seen.pop(key, None)
