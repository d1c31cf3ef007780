"""`naiad fetch` with a cache folder that the servers of a node share: one download for all, whole objects only, room for what is new."""

import os
import pathlib
import subprocess
import sys
import threading
import time

import pytest

from naiad import fetch
from tests.stores.conftest import Bucket
from tests.stores.proxy import Proxy

CONTENT = os.urandom(12 << 20)


@pytest.fixture
def model(bucket: Bucket) -> Bucket:
    bucket.put("m/1/model.onnx", CONTENT)
    bucket.put("m/config.pbtxt", b"config")
    return bucket


@pytest.fixture
def cache(tmp_path: pathlib.Path) -> pathlib.Path:
    return tmp_path / "cache"


def run(*arguments: object) -> int:
    return fetch.main([str(one) for one in arguments])


def option(cache: pathlib.Path) -> str:
    return f"--repository-cache-directory={cache}"


def objects(cache: pathlib.Path) -> dict[str, int]:
    return {path.name: path.stat().st_size for path in (cache / "objects").iterdir()}


def test_two_processes_that_fetch_at_the_same_time_download_once(
    model: Bucket, cache: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    with Proxy(model.server.port) as proxy:
        address = proxy.address(f"{model.name}/models")
        program = [sys.executable, "-m", "naiad", "fetch", address, option(cache)]
        folders = [tmp_path / "a", tmp_path / "b"]
        running = [subprocess.Popen([*program, "--to", str(folder)]) for folder in folders]
        assert [process.wait(120) for process in running] == [0, 0]
        assert len(CONTENT) < proxy.received < len(CONTENT) * 1.2
    for folder in folders:
        assert (folder / "m" / "1" / "model.onnx").read_bytes() == CONTENT
    assert sorted(objects(cache).values()) == [6, len(CONTENT)]
    assert all(path.stat().st_nlink == 1 for path in (cache / "objects").iterdir())
    assert not list((cache / "servers").iterdir())


def test_a_cache_that_was_filled_serves_a_fetch_without_a_download(
    model: Bucket, cache: pathlib.Path, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Proxy(model.server.port) as proxy:
        address = proxy.address(f"{model.name}/models")
        assert run(address, option(cache)) == 0
        assert capsys.readouterr().out == f"naiad fetch: 1 model, 12.6 MB, in the cache {cache}\n"
        before = proxy.received
        assert run(address, option(cache), "--to", tmp_path / "to") == 0
        assert proxy.received - before < 100_000
    made = tmp_path / "to" / "m" / "1" / "model.onnx"
    assert made.read_bytes() == CONTENT
    assert made.stat().st_nlink == 1, "else the object would count as in use"


def test_a_limit_removes_what_no_process_uses(
    model: Bucket, cache: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    limit = f"--repository-cache-bytes={14 << 20}"
    assert run(model.address, option(cache), limit) == 0
    model.put("m/1/model.onnx", CONTENT[::-1])
    assert run(model.address, option(cache), limit) == 0
    assert sum(objects(cache).values()) <= 14 << 20
    [large] = [path for path in (cache / "objects").iterdir() if path.stat().st_size > 100]
    assert large.read_bytes() == CONTENT[::-1]
    # What a server holds stays, and the error says what is missing.
    os.link(large, cache / "held")
    model.put("m/1/model.onnx", CONTENT)
    capsys.readouterr()
    assert run(model.address, option(cache), limit) == 1
    assert "which the objects in use do not leave of --repository-cache-bytes" in capsys.readouterr().err  # fmt: skip
    assert large.read_bytes() == CONTENT[::-1]


def test_a_cache_is_filled_again_and_again(
    model: Bucket, cache: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    sleep = time.sleep

    def pause(seconds: float) -> None:
        if threading.current_thread() is not threading.main_thread():
            sleep(seconds)  # of a client that another test has left
            return
        pauses.append(seconds)
        if len(pauses) == 1:
            model.put("n/1/model.onnx", b"new")
        elif len(pauses) == 2:
            model.boto.delete_object(Bucket=model.name, Key="models/n/1/model.onnx")
            model.put("n/1/a\nb", b"cannot be a file")
        else:
            raise KeyboardInterrupt

    monkeypatch.setattr(fetch.time, "sleep", pause)  # type: ignore[attr-defined]
    assert run(model.address, option(cache), "--every=60") == 130
    assert pauses == [60, 60, 60]
    assert sorted(objects(cache).values()) == [3, 6, len(CONTENT)]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["s3://a/b"], "write --to=FOLDER, or --repository-cache-directory=FOLDER"),
        (["s3://a/b", "--to=/x", "--every=5"], "--every is for a cache alone"),
        (["s3://a/b", "--repository-cache-directory="], "is empty"),
        (["s3://a/b", "--repository-cache-directory=/x", "--every=0"], "expected a number of seconds"),
        (["s3://a/b", "--to=/x", "--repository-cache-bytes=1G"], "expected a number of bytes"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_the_options(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert fetch.main(arguments) == 2
    assert said in capsys.readouterr().err


def test_a_folder_needs_no_cache(
    cache: pathlib.Path, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, option(cache)) == 1
    assert "is a folder: a cache is for what is downloaded" in capsys.readouterr().err
