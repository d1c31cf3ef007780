"""`naiad serve` with a repository in S3: loads, reloads, shared caches, kills, and messages that users act on."""

import collections.abc
import contextlib
import os
import pathlib
import shutil
import signal

import pytest

from tests.reference.process import ServerProcess, naiad_program
from tests.stores.conftest import Bucket
from tests.stores.proxy import Proxy
from tests.stores.versitygw import SECRET_KEY
from tests.support.waiting import wait_until
from tests.wire import repository
from tests.wire.plain_http import call

pytestmark = pytest.mark.slow

EXPLICIT = ("--model-control-mode=explicit", "--load-model=add")
ADD = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [1, 2, 3, 4]}]}
TEXT = {"inputs": [{"name": "TEXT", "datatype": "BYTES", "shape": [1, 1], "data": ["hello"]}]}


@pytest.fixture
def models(bucket: Bucket, tmp_path: pathlib.Path) -> Bucket:
    """A bucket with `add` (ONNX) and `text` (Python)."""
    folder = repository.make(tmp_path / "models")
    shutil.rmtree(folder / "slow")
    bucket.upload(folder)
    return bucket


@pytest.fixture
def cache(tmp_path: pathlib.Path) -> pathlib.Path:
    return tmp_path / "cache"


@contextlib.contextmanager
def serving(
    address: str, log: pathlib.Path, *options: str
) -> collections.abc.Iterator[ServerProcess]:
    """A running server, whose log never has a secret in it."""
    options = (f"--model-repository={address}", *options)
    with ServerProcess(naiad_program(), [], log=log, options=options) as server:
        yield server
    assert SECRET_KEY not in server.output()


def load(server: ServerProcess, name: str) -> tuple[int, str]:
    status, body = call(server.http, "POST", f"/v2/repository/models/{name}/load")
    return status, body.decode()


def infer(server: ServerProcess, name: str, body: object) -> str:
    status, answer = call(server.http, "POST", f"/v2/models/{name}/infer", body)
    assert status == 200, answer
    return answer.decode()


def objects(cache: pathlib.Path) -> dict[str, int]:
    """The inode of every complete object."""
    return {
        path.name: path.stat().st_ino for path in (cache / "objects").iterdir() if not path.suffix
    }


def test_loads_reloads_and_a_bucket_that_disappears(
    models: Bucket, tmp_path: pathlib.Path, cache: pathlib.Path
) -> None:
    with serving(
        models.address, tmp_path / "log", *EXPLICIT, f"--repository-cache-directory={cache}"
    ) as server:
        assert "[2.0,4.0,6.0,8.0]" in infer(server, "add", ADD)
        assert load(server, "text") == (200, "")
        assert "HELLO" in infer(server, "text", TEXT)
        before = objects(cache)
        assert len(before) == 4
        # Only the changed object is downloaded; the config is shared by the old and the new folder.
        models.put("text/1/model.py", repository.TEXT_MODEL.replace("upper()", "title()").encode())
        assert load(server, "text") == (200, "")
        assert "Hello" in infer(server, "text", TEXT)
        assert len(objects(cache).items() - before.items()) == 1
        assert before.items() <= objects(cache).items()
        wait_until(
            lambda: len(list((cache / "servers").glob("*/*/text"))) == 1,
            what="the old folder is there",
        )
        # A reason names what is to be changed, and not the copy of it.
        models.put("broken/1/model.onnx", b"123")
        status, body = load(server, "broken")
        assert status >= 400
        assert f"{models.address}/broken/1/model.onnx' is cut off after 3 bytes" in body
        models.put("broken/1/model.py", b"import nosuch")
        models.put("broken/config.pbtxt", b'backend: "python"')
        status, body = load(server, "broken")
        assert status >= 400
        assert f"{models.address}/broken/1/model.py" in body
        assert str(cache) not in server.output()
        # What cannot be loaded leaves what is served as it is.
        models.put("text/1/a\nb", b"")
        status, body = load(server, "text")
        assert status >= 400
        assert "it holds control characters; rename or delete it" in body
        shutil.rmtree(models.server.root / models.name)
        status, body = load(server, "add")
        assert status >= 400
        assert f"{models.address}: there is no such bucket; check its name" in body
        assert "[2.0,4.0,6.0,8.0]" in infer(server, "add", ADD)
        assert "Hello" in infer(server, "text", TEXT)
        assert server.stop() == 0
    assert not list((cache / "servers").iterdir())


def test_a_second_server_shares_the_cache_and_a_killed_one_leaves_nothing_that_counts(
    models: Bucket, tmp_path: pathlib.Path, cache: pathlib.Path
) -> None:
    content = os.urandom(20 << 20)
    models.put("add/1/labels", content)
    option = f"--repository-cache-directory={cache}"

    def stall(piece: bytes, offset: int, connection: int) -> bytes | None:
        if offset > 2 << 20:
            held.append(connection)
            proxy.hold()
        return piece

    held = list[int]()
    with Proxy(models.server.port, stall) as proxy:
        address = proxy.address(f"{models.name}/models")
        program = naiad_program()
        options = (f"--model-repository={address}", option)
        first = ServerProcess(program, [], log=tmp_path / "first", options=options)
        assert first.start().process is not None
        wait_until(lambda: bool(held), seconds=60)
        assert list((cache / "objects").glob("*.part"))
        first.process.send_signal(signal.SIGKILL)  # type: ignore[union-attr]  # it was started
        first.process.wait(20)  # type: ignore[union-attr]  # likewise
        proxy.release()
        with serving(address, tmp_path / "second", *EXPLICIT, option) as second:
            assert "[2.0,4.0,6.0,8.0]" in infer(second, "add", ADD)
            (labels,) = (cache / "servers").glob("*/*/add/1/labels")
            assert labels.read_bytes() == content
            assert not list((cache / "objects").glob("*.part"))
            inodes, received = objects(cache), proxy.received
            with serving(address, tmp_path / "third", *EXPLICIT, option) as third:
                assert "[2.0,4.0,6.0,8.0]" in infer(third, "add", ADD)
                assert objects(cache) == inodes
                assert labels.stat().st_nlink == 3
            assert proxy.received - received < 1 << 20, (
                "the third one listed and downloaded nothing"
            )


def test_a_server_that_cannot_read_its_repository_exits_with_one_sentence(
    models: Bucket, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ports = [f"--{name}=0" for name in ("http-port", "grpc-port", "metrics-port")]
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another-secret")
    status, said = naiad_program().run([f"--model-repository={models.address}", *ports])
    assert status == 1
    assert "the secret key does not fit the access key id; check AWS_SECRET_ACCESS_KEY" in said
    assert "another-secret" not in said
    assert "Traceback" not in said


def test_a_stop_during_a_download_ends_in_time(models: Bucket, tmp_path: pathlib.Path) -> None:
    held = list[int]()

    def stall(piece: bytes, offset: int, connection: int) -> bytes | None:
        if b"<Contents>" in piece:
            held.append(connection)
            proxy.hold()
        return piece

    with Proxy(models.server.port, stall) as proxy:
        options = (f"--model-repository={proxy.address(f'{models.name}/models')}",)
        server = ServerProcess(naiad_program(), [], log=tmp_path / "log", options=options).start()
        wait_until(lambda: bool(held), seconds=60)
        assert server.stop() == 0
        assert "SIGTERM: stopping" in server.output()


def test_polls_take_what_is_uploaded_and_survive_a_store_that_is_away(
    models: Bucket, tmp_path: pathlib.Path
) -> None:
    options = ("--model-control-mode=poll", "--repository-poll-secs=1", "--repository-quiet-secs=0")
    with (
        Proxy(models.server.port) as proxy,
        serving(proxy.address(f"{models.name}/models"), tmp_path / "log", *options) as server,
    ):
        assert "HELLO" in infer(server, "text", TEXT)
        models.put("text/1/model.py", repository.TEXT_MODEL.replace("upper()", "title()").encode())
        wait_until(lambda: "Hello" in infer(server, "text", TEXT))
        proxy.change = lambda piece, offset, connection: None
        proxy.cut()
        wait_until(lambda: "no connection to http://127.0.0.1:" in server.output(), seconds=60)
        assert "Hello" in infer(server, "text", TEXT)
        proxy.change = lambda piece, offset, connection: piece
        models.put("text/2/model.py", repository.TEXT_MODEL.encode())
        wait_until(lambda: "HELLO" in infer(server, "text", TEXT), seconds=60)
        for key in ("text/1/model.py", "text/2/model.py", "text/config.pbtxt"):
            models.boto.delete_object(Bucket=models.name, Key=f"models/{key}")
        path = "/v2/models/text/ready"
        wait_until(lambda: call(server.http, "GET", path)[0] != 200, seconds=60)
        assert "[2.0,4.0,6.0,8.0]" in infer(server, "add", ADD)
