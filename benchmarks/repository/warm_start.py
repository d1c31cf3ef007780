"""How long a second start from S3 takes, whose models are in the cache folder, beside a start from a local folder."""

import dataclasses
import pathlib
import statistics
import tempfile

from benchmarks import models
from benchmarks.repository.bucket import bucket
from benchmarks.repository.starts import Start, median, program, start

WIDTH = 16384
"""Of a model of 1.07 GB."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Starts:
    """Medians of the starts with one repository, and of the ratios of pairs.

    Attributes:
        text: the models.
        local: from a local folder.
        warm: from S3, everything in the cache folder.
        ratio: seconds, warm / local.
    """

    text: str
    local: Start
    warm: Start
    ratio: float


def measure(*, rounds: int, width: int = WIDTH) -> list[Starts]:
    """Measure the starts with a large model, and with a tiny one.

    Args:
        rounds: of both starts, which take turns.
        width: of the large model, which has 4 * width² bytes.

    Raises:
        LoadError: a server is not ready in time.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        models.weighty_onnx(folder / "large", width=width)
        models.tiny_onnx(folder / "small")
        return [
            _measure(f"ONNX, {4 * width**2 / 1e9:.2f} GB", folder / "large", rounds),
            _measure("ONNX, tiny", folder / "small", rounds),
        ]


def table(rows: list[Starts]) -> str:
    """As Markdown."""
    lines = [
        "| model | local folder, s | S3 with a warm cache, s | S3 / local | processor time, s | processor time with S3, s |",
        "|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {row.text} | {row.local.seconds:.2f} | {row.warm.seconds:.2f} | **{row.ratio:.2f}** | {row.local.processor_s:.2f} | {row.warm.processor_s:.2f} |"
        for row in rows
    ]
    return "\n".join(lines)


def _measure(text: str, repository: pathlib.Path, rounds: int) -> Starts:
    folder = repository.parent
    with bucket(folder / f"{repository.name}-s3") as store:
        naiad = program(folder)  # with the credentials
        store.upload(repository)
        cache = f"--repository-cache-directory={folder / f'{repository.name}-cache'}"
        kinds = [f"--model-repository={repository}"], [f"--model-repository={store.address}", cache]
        for options in kinds:  # writes the bytecode, and fills the cache
            start(naiad, options, folder)
        starts = [[start(naiad, options, folder) for options in kinds] for _ in range(rounds)]
    local, warm = zip(*starts, strict=True)
    ratio = statistics.median(s3.seconds / disk.seconds for disk, s3 in starts)
    return Starts(text=text, local=median(local), warm=median(warm), ratio=ratio)
