"""From the probabilities of the chunks of a stream to the times of speech. Pure."""

import collections.abc
import typing

CHUNK_SECONDS = 0.032
START, END = 0.5, 0.35
"""Speech begins with a chunk of at least START, and is over when all chunks of a pause are below END."""
PAUSE_CHUNKS = 10
"""Shorter pauses, such as those between words, do not end a segment: 0.3 s."""
LEAST_CHUNKS = 8
"""Shorter segments are noise: 0.25 s."""


class Segment(typing.NamedTuple):
    """Speech, in seconds from the beginning of the stream."""

    start: float
    end: float

    def shown(self) -> str:
        """As text."""
        return f"{self.start:.2f}-{self.end:.2f}"


class Segmenter:
    """Finds the segments of one stream, chunk by chunk.

    Attributes:
        segments: those that are over.
    """

    def __init__(self) -> None:
        self.segments: list[Segment] = []
        self._chunks = 0
        self._start: int | None = None
        self._speech_end = 0

    def add(self, probability: float) -> None:
        """The next chunk."""
        at = self._chunks
        self._chunks += 1
        if self._start is None and probability >= START:
            self._start = at
        if self._start is None:
            return
        if probability >= END:
            self._speech_end = at + 1
        elif at + 1 - self._speech_end >= PAUSE_CHUNKS:
            self._close()

    def finish(self) -> list[Segment]:
        """The stream is over; gives all segments."""
        self._close()
        return self.segments

    def _close(self) -> None:
        start, self._start = self._start, None
        if start is not None and self._speech_end - start >= LEAST_CHUNKS:
            self.segments.append(Segment(start * CHUNK_SECONDS, self._speech_end * CHUNK_SECONDS))


def segments_of(probabilities: collections.abc.Iterable[float]) -> list[Segment]:
    """The segments of a whole stream."""
    segmenter = Segmenter()
    for probability in probabilities:
        segmenter.add(probability)
    return segmenter.finish()
