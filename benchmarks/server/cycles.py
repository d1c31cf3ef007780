"""What loading and unloading a model over and over leaves behind: resident memory of the server and its workers, after each unload."""

import dataclasses
import pathlib
import tempfile
import urllib.request

import psutil

from benchmarks import models
from benchmarks.requests import Sample, file_bytes, small
from tests.reference.process import ServerProcess, naiad_program

_MIB = 1024 * 1024
_REQUESTS = 20
_WORDS = (0, 100_000)


@dataclasses.dataclass(frozen=True, slots=True)
class Cycles:
    """Resident memory in MiB: with the model, after its first unload, after the last one."""

    model: str
    cycles: int
    loaded: float
    first: float
    last: float

    @property
    def more_percent(self) -> float:
        """What the later cycles left behind, as a share of what there was after the first."""
        return 100 * (self.last / self.first - 1)


def measure(*, cycles: int) -> list[Cycles]:
    """Load, ask, unload; each model in a server of its own, so that none profits from what another one left."""
    samples = (small("weighty"), file_bytes(), *(small(f"hoarder_{words}") for words in _WORDS))
    with tempfile.TemporaryDirectory() as folder:
        repository = pathlib.Path(folder) / "models"
        models.weighty_onnx(repository)
        models.magika(repository)
        for words in _WORDS:
            models.weighty_python(repository, words=words)
        return [
            _measure(sample, repository, pathlib.Path(folder) / "log", cycles) for sample in samples
        ]


def table(rows: list[Cycles]) -> str:
    """As Markdown."""
    lines = [
        "| model | loaded, MiB | after the first unload | after the last | more | cycles |",
        "|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {row.model} | {row.loaded:.1f} | {row.first:.1f} | {row.last:.1f} | {row.more_percent:+.1f} % | {row.cycles} |"
        for row in rows
    ]
    return "\n".join(lines)


def _measure(sample: Sample, repository: pathlib.Path, log: pathlib.Path, cycles: int) -> Cycles:
    options = ("--model-control-mode=explicit",)
    with ServerProcess(naiad_program(), [repository], log=log, options=options) as server:
        assert server.process is not None
        process = psutil.Process(server.process.pid)
        change = f"http://{server.http}/v2/repository/models/{sample.model}"
        request = sample.json(server.http)
        loaded, left = [], []
        for _ in range(cycles):
            _post(f"{change}/load", b"")
            for _ in range(_REQUESTS):
                _post(request.url, request.body)
            loaded.append(_resident(process))
            _post(f"{change}/unload", b"")
            left.append(_resident(process))
    return Cycles(sample.model, cycles, loaded[0], left[0], left[-1])


def _post(url: str, body: bytes) -> None:
    with urllib.request.urlopen(url, data=body, timeout=30) as reply:  # noqa: S310 - http on loopback
        reply.read()


def _resident(process: psutil.Process) -> float:
    family = [process, *process.children(recursive=True)]
    return float(sum(each.memory_info().rss for each in family) / _MIB)
