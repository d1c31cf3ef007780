"""`naiad fetch` and `naiad serve` with an address of each scheme, as users run them."""

import collections.abc
import contextlib
import os
import pathlib
import subprocess
import typing

import pytest

from tests.reference.process import Program, ServerProcess, naiad_program
from tests.stores import azurite, fake_gcs
from tests.stores.clients.hub import Hub
from tests.stores.clients.registry import IMAGE_CONFIG, TAR_GZIP, Registry, serving
from tests.stores.clients.tarballs import tarball
from tests.stores.clients.web_server import Reply, make_certificate, web_server
from tests.support.waiting import wait_until
from tests.wire import repository
from tests.wire.plain_http import call

pytestmark = pytest.mark.slow

ADD = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [1, 2, 3, 4]}]}


class Source(typing.NamedTuple):
    """A repository that commands can read.

    Attributes:
        address: of the repository.
        environ: what commands need.
        publish: put other files there.
    """

    address: str
    environ: dict[str, str]
    publish: collections.abc.Callable[[dict[str, bytes]], object]


@contextlib.contextmanager
def gs(folder: pathlib.Path, files: dict[str, bytes]) -> collections.abc.Iterator[Source]:
    from google.cloud import storage  # noqa: PLC0415 - only this one needs it

    (folder / "bucket").mkdir()
    with fake_gcs.emulator(folder) as server:
        options = {"api_endpoint": server.url}
        anonymous = storage.Client.create_anonymous_client()
        bucket = storage.Client(
            project="p", credentials=anonymous._credentials, client_options=options
        ).bucket("bucket")

        def publish(files: dict[str, bytes]) -> None:
            for name, content in files.items():
                bucket.blob(f"models/{name}").upload_from_string(content)

        publish(files)
        yield Source("gs://bucket/models", {fake_gcs.VARIABLE: server.url}, publish)


@contextlib.contextmanager
def as_(folder: pathlib.Path, files: dict[str, bytes]) -> collections.abc.Iterator[Source]:
    from azure.storage.blob import ContainerClient  # noqa: PLC0415 - only this one needs it

    with azurite.emulator(folder) as server:
        url = f"http://127.0.0.1:{server.port}/{azurite.ACCOUNT}"
        key = {"account_name": azurite.ACCOUNT, "account_key": azurite.KEY}
        container = ContainerClient(url, "bucket", key)
        container.create_container()

        def publish(files: dict[str, bytes]) -> None:
            for name, content in files.items():
                container.upload_blob(f"models/{name}", content, overwrite=True)

        publish(files)
        variables = {"AZURE_STORAGE_KEY": azurite.KEY}
        yield Source(server.address("bucket/models"), variables, publish)


@contextlib.contextmanager
def https(folder: pathlib.Path, files: dict[str, bytes]) -> collections.abc.Iterator[Source]:
    certificate = make_certificate(folder)
    served: list[bytes] = []

    def publish(files: dict[str, bytes]) -> None:
        members = [(f"models/{name}", content) for name, content in files.items()]
        served.append(tarball(*members, compression="gz"))

    publish(files)
    with web_server(lambda r: Reply.file(r, served[-1]), certificate=certificate) as url:
        address = f"{url}/models.tar.gz?signature=do-not-show"
        yield Source(address, {"SSL_CERT_FILE": str(certificate)}, publish)


@contextlib.contextmanager
def oci(folder: pathlib.Path, files: dict[str, bytes]) -> collections.abc.Iterator[Source]:
    with serving(Registry()) as registry:

        def publish(files: dict[str, bytes]) -> None:
            members = [(f"models/{name}", content) for name, content in files.items()]
            layer = registry.layer(tarball(*members, compression="gz"), TAR_GZIP)
            registry.push("v1", [layer], config=IMAGE_CONFIG)

        publish(files)
        address = f"oci://{registry.host}/models/all:v1"
        yield Source(address, {"DOCKER_CONFIG": str(folder)}, publish)


@contextlib.contextmanager
def hf(folder: pathlib.Path, files: dict[str, bytes]) -> collections.abc.Iterator[Source]:
    hub = Hub()

    def publish(files: dict[str, bytes]) -> None:
        hub.commit({f"models/{name}": content for name, content in files.items()})

    publish(files)
    with web_server(hub) as url:
        variables = {"HF_ENDPOINT": url, "HF_HOME": str(folder)}
        yield Source("hf://owner/name/models", variables, publish)


def model(tmp_path: pathlib.Path) -> dict[str, bytes]:
    """The files of a repository with the model `add`."""
    root = repository.make(tmp_path / "models")
    paths = [path for path in (root / "add").rglob("*") if path.is_file()]
    return {str(path.relative_to(root)): path.read_bytes() for path in paths}


def program(source: Source) -> Program:
    naiad = naiad_program()
    return Program(naiad.name, naiad.command, {**naiad.environ, **source.environ})


@pytest.mark.parametrize("kind", [gs, pytest.param(as_, marks=pytest.mark.stores), https, oci, hf])
def test_fetch_and_serve_and_a_new_version(
    kind: collections.abc.Callable[..., contextlib.AbstractContextManager[Source]],
    tmp_path: pathlib.Path,
) -> None:
    (tmp_path / "source").mkdir()
    files = model(tmp_path)
    with kind(tmp_path / "source", files) as source:
        fetched = tmp_path / "fetched"
        command = [
            program(source).command[0],
            "-m",
            "naiad",
            "fetch",
            source.address,
            "--to",
            str(fetched),
        ]
        outputs = [
            subprocess.run(
                command,
                env={**os.environ, **source.environ},
                capture_output=True,
                text=True,
                check=False,
            )
            for _ in range(2)
        ]
        assert [output.returncode for output in outputs] == [0, 0], outputs
        assert outputs[1].stdout.endswith("there already\n")
        assert ("while it is downloaded" in outputs[0].stderr) == (kind in (https, oci))
        copied = {
            str(path.relative_to(fetched)): path.read_bytes()
            for path in fetched.rglob("*")
            if path.is_file() and path.parent != fetched
        }
        assert copied == files

        options = (
            f"--model-repository={source.address}",
            "--model-control-mode=poll",
            "--repository-poll-secs=1",
            "--repository-quiet-secs=0",
        )
        with ServerProcess(program(source), [], log=tmp_path / "log", options=options) as server:
            assert b"[2.0,4.0,6.0,8.0]" in call(server.http, "POST", "/v2/models/add/infer", ADD)[1]
            source.publish({**files, "add/2/model.onnx": files["add/1/model.onnx"]})
            wait_until(
                lambda: call(server.http, "GET", "/v2/models/add/versions/2/ready")[0] == 200,
                what="the new version is not loaded",
            )
        assert "do-not-show" not in server.output() + outputs[0].stdout + outputs[0].stderr
