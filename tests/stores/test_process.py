"""The store process: what passes through it, and how every call ends when it, or the server, does."""

import collections.abc
import concurrent.futures
import logging
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading

import psutil
import pytest

from naiad.errors import ErrorCode, InferenceError
from naiad.repository.store import BatchStore
from naiad.repository.stores import process as process_module
from naiad.repository.stores.process import StoreProcess
from tests.stores.conftest import Bucket
from tests.stores.proxy import Proxy
from tests.stores.versitygw import SECRET_KEY
from tests.support.processes import command_of
from tests.support.waiting import wait_until


@pytest.fixture
def stores(tmp_path: pathlib.Path) -> collections.abc.Iterator[StoreProcess]:
    made = StoreProcess(directory=str(tmp_path / "cache"), limit=0, environ={})
    yield made
    made.close()


@pytest.fixture
def model(bucket: Bucket) -> Bucket:
    bucket.put("m/1/model.onnx", b"weights")
    bucket.put("m/config.pbtxt", b"config")
    return bucket


def child() -> psutil.Process:
    """The store process of this process."""
    shown = "naiad.repository.stores.child"
    (one,) = [each for each in psutil.Process().children() if shown in command_of(each)]
    return one


def test_a_listing_that_was_begun_is_the_first_one_and_the_next_is_new(
    model: Bucket, stores: StoreProcess
) -> None:
    stores.begin([model.address])
    _, listing = stores._early[model.address]
    listing.result(60)
    model.put("later/config.pbtxt", b"")
    store = stores.open(model.address)
    assert store.names() == ["m"]
    assert store.names() == ["later", "m"]


def test_a_listing_that_was_begun_fails_where_it_is_used(stores: StoreProcess) -> None:
    wrong = "s3://http://127.0.0.1:1/bucket"
    stores.begin([wrong])
    with pytest.raises(InferenceError, match=r"127\.0\.0\.1:1"):
        stores.open(wrong).names()
    stores.begin([wrong])
    stores.close()
    with pytest.raises(InferenceError, match=r"has ended|signal|exited"):
        stores.open(wrong).names()


def test_a_store_in_the_process_is_like_one_here(model: Bucket, stores: StoreProcess) -> None:
    store = stores.open(model.address)
    assert isinstance(store, BatchStore)
    assert store.location == model.address
    assert store.names() == ["m"]
    before = store.fingerprint("m")
    assert set(before) == {"1", "config.pbtxt"}
    checkout = store.checkout("m")
    assert (checkout.folder / "1" / "model.onnx").read_bytes() == b"weights"
    assert checkout.release is not None
    checkout.release()
    assert not checkout.folder.exists()
    model.put("m/1/model.onnx", b"changed")
    assert store.names() == ["m"]
    assert store.fingerprint("m") != before
    running = child()
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        running.send_signal(number)  # the server's
    assert store.names() == ["m"]
    assert child() == running
    scanned, refused = store.fingerprints(["m", "../m"])
    assert scanned == store.fingerprint("m")
    assert isinstance(refused, InferenceError)
    assert "path traversal" in refused.message
    assert SECRET_KEY not in " ".join(child().cmdline())
    for method in (store.fingerprint, store.checkout):
        with pytest.raises(InferenceError, match="path traversal"):
            method("../m")


def test_errors_come_as_they_are(
    bucket: Bucket, stores: StoreProcess, caplog: pytest.LogCaptureFixture
) -> None:
    missing = stores.open(bucket.server.address("missing-bucket"))
    with pytest.raises(InferenceError, match="there is no such bucket") as caught:
        missing.names()
    assert caught.value.code is ErrorCode.INVALID_ARG
    with caplog.at_level(logging.WARNING):
        assert stores.open(bucket.address).names() == []
    assert "no model; if there should be, check the bucket and the prefix" in caplog.text


def test_a_process_that_dies_fails_its_calls_and_the_next_call_starts_another(
    model: Bucket, stores: StoreProcess
) -> None:
    held = threading.Event()

    def hold(piece: bytes, offset: int, connection: int) -> bytes:
        held.set()
        proxy.hold()
        return piece

    with Proxy(model.server.port) as proxy, concurrent.futures.ThreadPoolExecutor() as threads:
        store = stores.open(proxy.address(f"{model.name}/models"))
        assert store.names() == ["m"]
        proxy.change = hold
        proxy.cut()
        call = threads.submit(store.checkout, "m")
        assert held.wait(20)
        child().kill()
        with pytest.raises(
            InferenceError, match="was ended by SIGKILL: it may have run out of memory"
        ) as caught:
            call.result(20)
        assert caught.value.code is ErrorCode.UNAVAILABLE
        proxy.release()
        assert (store.checkout("m").folder / "1" / "model.onnx").read_bytes() == b"weights"


def test_a_process_that_is_stopped_is_killed(
    model: Bucket, stores: StoreProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = stores.open(model.address)
    store.names()
    child().suspend()
    monkeypatch.setattr(process_module, "_SILENT_S", 0.2)
    monkeypatch.setattr(process_module, "_LOOK_S", 0.05)
    with pytest.raises(InferenceError, match="SIGKILL"):
        store.names()
    monkeypatch.setattr(process_module, "_SILENT_S", 60)
    assert store.names() == ["m"]


def test_the_end_of_the_server_fails_calls_and_removes_a_temporary_folder(
    model: Bucket, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    stores = StoreProcess(directory="", limit=0, environ={})
    store = stores.open(model.address)
    store.checkout("m")
    assert list(tmp_path.glob("naiad-models-*/objects/*"))
    running = child()
    running.suspend()  # so that the call does not end before
    with concurrent.futures.ThreadPoolExecutor() as threads:
        call = threads.submit(store.names)
        wait_until(lambda: bool(stores._link and stores._link._calls))
        monkeypatch.setattr(process_module, "_EXIT_S", 0.5)
        stores.close()
        with pytest.raises(InferenceError):
            call.result(20)
    assert not running.is_running()
    assert not list(tmp_path.glob("naiad-models-*"))
    with pytest.raises(InferenceError, match="the server is stopping"):
        store.names()
    stores.close()


_SERVER = """
import sys, time
from naiad.repository.stores.process import StoreProcess
stores = StoreProcess(directory="", limit=0, environ={})
print(stores.open(sys.argv[1]).checkout("m").folder, flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("signal_number", [signal.SIGKILL, signal.SIGINT])
def test_a_server_that_is_killed_takes_its_process_and_its_temporary_folder_with_it(
    model: Bucket, tmp_path: pathlib.Path, signal_number: signal.Signals
) -> None:
    environ = {**os.environ, "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-c", _SERVER, model.address]
    with subprocess.Popen(
        command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as server:
        assert server.stdout is not None
        folder = pathlib.Path(server.stdout.readline().strip())
        assert folder.is_relative_to(tmp_path)
        (running,) = psutil.Process(server.pid).children()
        server.send_signal(signal_number)
    wait_until(lambda: not running.is_running())
    wait_until(lambda: not list(tmp_path.glob("naiad-models-*")))


def test_tritons_variables_choose_the_cache_folder(model: Bucket, tmp_path: pathlib.Path) -> None:
    environ = {
        "TRITON_AWS_MOUNT_DIRECTORY": str(tmp_path / "mount"),
        "TRITON_GCS_MOUNT_DIRECTORY": "/nowhere",
    }
    stores = StoreProcess(directory="", limit=0, environ=environ)
    try:
        assert stores.open(model.address).checkout("m").folder.is_relative_to(tmp_path / "mount")
    finally:
        stores.close()
    assert len(list((tmp_path / "mount" / "objects").iterdir())) == 2, (
        "they stay for the next server"
    )
