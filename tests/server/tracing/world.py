"""A tracer whose files a test reads."""

import json
import pathlib
import typing

from naiad.core.clock import ManualClock
from naiad.tracing import files
from naiad.tracing.file_writer import FileWriter
from naiad.tracing.settings import TIMESTAMPS, TraceOptions
from naiad.tracing.tracer import Tracer
from tests.server.tracing.traces import Requests

Records = list[dict[str, typing.Any]]


class World:
    """A tracer whose files are in a folder."""

    def __init__(self, folder: pathlib.Path, **options: typing.Any) -> None:
        self.file = folder / "t.json"
        clock = ManualClock()
        given = {"level": TIMESTAMPS, "rate": 1, "file": str(self.file), **options}
        self.tracer = Tracer(TraceOptions(**given), clock=clock)
        self.tracer.open()
        self.requests = Requests(self.tracer, clock)

    def sink(self) -> files.TraceFiles:
        assert isinstance(self.tracer._sink, files.TraceFiles)
        return self.tracer._sink

    def writer(self) -> FileWriter:
        writer = self.sink()._writer
        assert isinstance(writer, FileWriter)
        return writer

    def written(self, number: int | None = None) -> Records:
        path = self.file if number is None else self.file.with_name(f"t.json.{number}")
        # It is there before its first records.
        records: Records = json.loads(path.read_text() or "[]")
        return records

    def files(self) -> list[str]:
        return sorted(path.name for path in self.file.parent.iterdir())


def ids(records: Records) -> list[int]:
    return [record["id"] for record in records if "model_name" in record]
