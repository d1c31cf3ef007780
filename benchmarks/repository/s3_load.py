"""How fast a large model is loaded from S3, beside a plain download of the same object: boto3, the same ranges, as many threads.

The store is versitygw on the same machine, and its files are in the page cache. The model is a tiny ONNX model with a large file beside it, so that
its load is the download. Before each measurement as much memory is filled and freed: a virtual machine may give free memory back to its
host, and who uses it next would pay for that.
"""

import concurrent.futures
import dataclasses
import http
import os
import pathlib
import shutil
import statistics
import tempfile
import time
import typing
import unittest.mock

from benchmarks import models
from benchmarks.load import LoadError
from benchmarks.repository.bucket import NAME, Bucket, bucket
from naiad.repository.stores.download import RANGE_BYTES, THREADS
from tests.reference.process import ServerProcess, naiad_program
from tests.support.waiting import wait_until
from tests.wire.plain_http import call

SIZE = 1 << 30

_PIECE = 1 << 20
_FILE = "1/weights"


class Kind(typing.NamedTuple):
    """What is loaded, and where to.

    Attributes:
        text: in words.
        model: its name.
        is_kept: whether the cache folder stays, so that the object must be on the disk; the plain download ends with an fsync then.
    """

    text: str
    model: str
    is_kept: bool = False


KINDS = (
    Kind("uploaded in parts: its size is verified", "parts"),
    Kind("uploaded in one part: its CRC-32 is verified", "whole"),
    Kind("in parts, into a cache folder that stays (with fsync)", "parts", is_kept=True),
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Loads:
    """One kind: medians of seconds, and of the ratios of pairs.

    Attributes:
        kind: which.
        plain: the plain download.
        load: from the request for the load to its response.
        ratio: speed of the load / speed of the plain download.
    """

    kind: Kind
    plain: float
    load: float
    ratio: float


def measure(*, rounds: int, size: int = SIZE) -> list[Loads]:
    """Measure each kind in rounds, in which load and plain download take turns.

    Args:
        rounds: of each kind.
        size: of the file in bytes.

    Raises:
        LoadError: a load failed.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        with bucket(folder / "s3") as store:
            _upload(store, folder, size)
            return [_measure(kind, store, folder, size=size, rounds=rounds) for kind in KINDS]


def table(rows: list[Loads]) -> str:
    """As Markdown."""
    lines = ["| object | plain download, s | load, s | speed, load / plain |", "|---|---|---|---|"]
    lines += [
        f"| {row.kind.text} | {row.plain:.2f} | {row.load:.2f} | **{row.ratio:.2f}** |"
        for row in rows
    ]
    return "\n".join(lines)


def _upload(store: Bucket, folder: pathlib.Path, size: int) -> None:
    """`tiny`, and under two names the same with a large file."""
    repository, weights = folder / "models", folder / "weights"
    models.tiny_onnx(repository)
    for model in ("parts", "whole"):
        shutil.copytree(repository / "tiny", repository / model)
    store.upload(repository)
    with weights.open("wb") as file:
        for start in range(0, size, _PIECE):
            file.write(os.urandom(min(_PIECE, size - start)))
    store.client.upload_file(str(weights), NAME, f"parts/{_FILE}")
    store.put(f"whole/{_FILE}", weights)
    weights.unlink()


def _measure(kind: Kind, store: Bucket, folder: pathlib.Path, *, size: int, rounds: int) -> Loads:
    temporary = folder / "temporary"
    temporary.mkdir(exist_ok=True)
    options = [f"--model-repository={store.address}", "--model-control-mode=explicit"]
    if kind.is_kept:
        options.append(f"--repository-cache-directory={temporary / 'cache'}")
    plain, load = list[float](), list[float]()
    with (
        unittest.mock.patch.dict(os.environ, {"TMPDIR": str(temporary)}),
        ServerProcess(naiad_program(), [], log=folder / "log", options=options) as server,
    ):
        _load(server, "tiny", temporary)  # starts what runs with the first request for a load
        for number in range(rounds):
            for is_load in (False, True) if number % 2 else (True, False):
                _fill_memory(folder / "memory", size)
                if is_load:
                    load.append(_load(server, kind.model, temporary))
                else:
                    target = folder / "plain"
                    plain.append(_download(store, kind, target, size))
                    target.unlink()
    ratios = [one / other for one, other in zip(plain, load, strict=True)]
    medians = map(statistics.median, (plain, load, ratios))
    return Loads(kind=kind, **dict(zip(("plain", "load", "ratio"), medians, strict=True)))


def _fill_memory(path: pathlib.Path, size: int) -> None:
    with path.open("wb") as file:
        for _ in range(0, size, _PIECE):
            file.write(bytes(_PIECE))
    path.unlink()


def _load(server: ServerProcess, model: str, temporary: pathlib.Path) -> float:
    """Load a model, then unload it and remove it from the cache; gives the seconds of the load."""
    before = time.perf_counter()
    status, body = call(server.http, "POST", f"/v2/repository/models/{model}/load")
    seconds = time.perf_counter() - before
    if status != http.HTTPStatus.OK:
        raise LoadError(f"the load of {model} was answered with {status}: {body.decode()}")
    call(server.http, "POST", f"/v2/repository/models/{model}/unload")
    wait_until(lambda: not any(temporary.glob(f"*/servers/*/*/{model}")), what="it is unloaded")
    for path in temporary.glob("*/objects/*"):
        path.unlink()
    return seconds


def _download(store: Bucket, kind: Kind, target: pathlib.Path, size: int) -> float:
    """Download the large file; gives the seconds."""

    def receive(start: int) -> None:
        end = min(start + RANGE_BYTES, size)
        span = f"bytes={start}-{end - 1}"
        body = store.client.get_object(Bucket=NAME, Key=f"{kind.model}/{_FILE}", Range=span)["Body"]
        with body:
            while piece := body.read(_PIECE):
                os.pwrite(file.fileno(), piece, start)
                start += len(piece)

    before = time.perf_counter()
    with target.open("wb") as file:
        file.truncate(size)
        with concurrent.futures.ThreadPoolExecutor(THREADS) as threads:
            list(threads.map(receive, range(0, size, RANGE_BYTES)))
        if kind.is_kept:
            os.fsync(file.fileno())
    return time.perf_counter() - before
