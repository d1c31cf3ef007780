"""A minimal OCI registry: manifests, blobs in ranges, tokens; and images and artifacts to put into it.

python -m tests.stores.clients.registry FOLDER      serves the files of FOLDER as an artifact on 127.0.0.1 until Ctrl-C, and prints its address
"""

import base64
import collections.abc
import contextlib
import gzip
import hashlib
import json
import pathlib
import sys
import threading
import typing
import urllib.parse

from tests.stores.clients.web_server import Reply, Request, web_server

IMAGE_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
IMAGE_INDEX = "application/vnd.oci.image.index.v1+json"
IMAGE_CONFIG = "application/vnd.oci.image.config.v1+json"
EMPTY = "application/vnd.oci.empty.v1+json"
TAR, TAR_GZIP = (f"application/vnd.oci.image.layer.v1.tar{ending}" for ending in ("", "+gzip"))
TITLE = "org.opencontainers.image.title"


def digest(content: bytes) -> str:
    """Of a blob or manifest."""
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


class Registry:
    """The contents of one repository, and what happened.

    Attributes:
        url: of the running server.
        blobs: by digest.
        manifests: by tag and digest.
        password: of `user`; "" lets every client in.
        tokens: that were handed out and count.
        requests: that arrived.
        blobs_at: the URL of a host that serves the blobs; "" is this one.
    """

    def __init__(self, *, password: str = "") -> None:
        self.url = ""
        self.blobs: dict[str, bytes] = {}
        self.manifests: dict[str, bytes] = {}
        self.password = password
        self.tokens: set[str] = set()
        self.requests: list[Request] = []
        self.blobs_at = ""

    @property
    def host(self) -> str:
        """Of an `oci://` address."""
        return self.url.removeprefix("http://")

    def layer(self, content: bytes, media_type: str, **annotations: str) -> dict[str, typing.Any]:
        """Add a blob; gives its descriptor."""
        self.blobs[digest(content)] = content
        names = {"title": TITLE, "unpack": "io.deis.oras.content.unpack"}
        described = {names[name]: value for name, value in annotations.items()}
        return {
            "mediaType": media_type,
            "digest": digest(content),
            "size": len(content),
            "annotations": described,
        }

    def push(
        self,
        tag: str,
        layers: collections.abc.Sequence[dict[str, typing.Any]],
        *,
        config: str = EMPTY,
    ) -> dict[str, typing.Any]:
        """Add a manifest; gives its descriptor."""
        manifest = {
            "schemaVersion": 2, "mediaType": IMAGE_MANIFEST, "config": self.layer(b"{}", config), "layers": list(layers),
        }  # fmt: skip
        return self.put(tag, manifest, IMAGE_MANIFEST)

    def put(self, tag: str, manifest: object, media_type: str) -> dict[str, typing.Any]:
        """Add a manifest as it is; gives its descriptor."""
        text = json.dumps(manifest).encode()
        self.manifests[tag] = self.manifests[digest(text)] = text
        return {"mediaType": media_type, "digest": digest(text), "size": len(text)}

    def __call__(self, request: Request) -> Reply:
        self.requests.append(request)
        if request.path == "/token":
            return self._token(request)
        authorization = request.headers["Authorization"] or ""
        if self.password and authorization.removeprefix("Bearer ") not in self.tokens:
            challenge = (
                f'Bearer realm="{self.url}/token",service="test",scope="repository:models/all:pull"'
            )
            return Reply(401, b"{}", {"WWW-Authenticate": challenge})
        kind, name = request.path.removeprefix("/v2/models/all/").split("/")
        if kind == "manifests" and name in self.manifests:
            text = self.manifests[name]
            return Reply(200, text, {"Docker-Content-Digest": digest(text)})
        if kind == "blobs" and name in self.blobs:
            if self.blobs_at:
                return Reply(307, headers={"Location": f"{self.blobs_at}/{name}?signed=1"})
            return Reply.file(request, self.blobs[name])
        return Reply(404, b"{}")

    def _token(self, request: Request) -> Reply:
        basic = base64.b64encode(f"user:{self.password}".encode()).decode()
        if request.headers["Authorization"] != f"Basic {basic}":
            return Reply(401, b"{}")
        asked = urllib.parse.parse_qs(request.query)
        assert asked == {"service": ["test"], "scope": ["repository:models/all:pull"]}, asked
        token = f"token-{len(self.requests)}"
        self.tokens.add(token)
        return Reply.json({"token": token})


@contextlib.contextmanager
def serving(registry: Registry) -> collections.abc.Iterator[Registry]:
    """The registry on 127.0.0.1 for a context, with one repository, `models/all`."""
    with web_server(registry) as url:
        registry.url = url
        yield registry


def gzipped(content: bytes) -> bytes:
    """A compressed layer."""
    return gzip.compress(content, 1)


if __name__ == "__main__":
    root = pathlib.Path(sys.argv[1])
    with serving(Registry()) as running, contextlib.suppress(KeyboardInterrupt):
        paths = [path for path in root.rglob("*") if path.is_file()]
        titles = {str(path.relative_to(root)): path.read_bytes() for path in paths}
        running.push(
            "latest", [running.layer(data, "x", title=name) for name, data in titles.items()]
        )
        print(f"oci://{running.host}/models/all", flush=True)  # noqa: T201 - it is a command
        threading.Event().wait()
