"""Masks manifests, pages and logs, and remembers what it has masked in manifests. Pure.

A credential that a manifest announces is also masked wherever else it appears, such as in the log of a program that prints its environment.
"""

import base64
import collections.abc
import json
import re
import typing
import urllib.parse

from naiad_operator.report import patterns
from naiad_operator.report.patterns import MASK
from naiad_operator.report.structure import Object, Structure

_SHORTEST = 6
_SHORTEST_WITHIN = 12
_PLAIN = re.compile(r"[a-z]+(?:[-.\s][a-z]+)*|[0-9]+(?:\.[0-9]+)*|/[\w./-]*")
"""What also has another meaning, and is not masked where nothing announces it: words, numbers, paths."""

_COLORS = re.compile(r"\x1b\[[0-9;]{0,20}[A-Za-z]")


class Masker:
    """Masks one report. Mask all manifests before the first log."""

    def __init__(self) -> None:
        self._learned: set[str] = set()
        self._everywhere: re.Pattern[str] | None = None
        self._manifests = Structure(self._learn)
        # What a program prints is not as certain as a manifest, and is not looked for elsewhere.
        self._lines = Structure()

    def manifest(self, manifest: collections.abc.Mapping[str, typing.Any]) -> Object:
        """A manifest without credentials, and without the record of which client wrote which field."""
        masked: Object = self._manifests.value(_without_managed_fields(manifest))
        return masked

    def text(self, text: str) -> str:
        """A log or a page without credentials and colors. Its lines may be JSON."""
        text = _COLORS.sub("", text)  # they stand between a name and its value
        if "PRIVATE KEY" in text:
            text = patterns.masked(text)
        text = patterns.without_blocks(text)
        return "\n".join(self._line(line) for line in text.split("\n"))

    def again(self, value: typing.Any) -> typing.Any:
        """A masked manifest without what other manifests announce."""
        match value:
            case dict():
                return {key: self.again(each) for key, each in value.items()}
            case list():
                return [self.again(each) for each in value]
            case str():
                return self._known(value)
            case _:
                return value

    def _known(self, text: str) -> str:
        """The text without the credentials that were masked in manifests before."""
        if self._everywhere is None:
            longest_first = sorted(self._learned, key=len, reverse=True)
            self._everywhere = re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")
        return self._everywhere.sub(MASK, text)

    def _line(self, line: str) -> str:
        start = line.find("{")  # behind the time, in logs of Kubernetes
        if start >= 0 and line.endswith("}"):
            try:
                content = json.loads(line[start:])
            except (ValueError, RecursionError):
                pass
            else:
                masked = self._lines.value(content)
                rest = line[start:] if masked == content else json.dumps(masked, ensure_ascii=False)
                return self._known(patterns.masked(line[:start]) + rest)
        return self._known(patterns.masked(line))

    def _learn(self, value: str) -> None:
        for part in {value, *value.splitlines()}:
            if len(part) >= _SHORTEST and not _PLAIN.fullmatch(part):
                self._learned |= _written(part)
                self._everywhere = None


def _written(value: str) -> set[str]:
    """A value as it is, in a URL, in JSON, and in base64."""
    encoded = base64.b64encode(value.encode()).decode()
    quoted = json.dumps(value, ensure_ascii=False)[1:-1]
    written = {value, quoted, urllib.parse.quote(value, safe=""), encoded, encoded.rstrip("=")}
    return written | (_within_base64(value.encode()) if len(value) >= _SHORTEST_WITHIN else set())


def _within_base64(value: bytes) -> set[str]:
    """What a longer text in base64 has of a value, such as that of `user:password`: the letters that depend on it alone."""
    return {
        base64.b64encode(bytes(before) + value).decode()[-(-before * 8 // 6) : (before + len(value)) * 8 // 6]
        for before in range(3)
    }  # fmt: skip


def _without_managed_fields(manifest: collections.abc.Mapping[str, typing.Any]) -> Object:
    metadata = manifest.get("metadata")
    if not isinstance(metadata, dict) or "managedFields" not in metadata:
        return dict(manifest)
    kept = {name: value for name, value in metadata.items() if name != "managedFields"}
    return {**manifest, "metadata": kept}
