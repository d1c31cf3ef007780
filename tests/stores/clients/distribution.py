"""The reference registry of the OCI distribution specification (github.com/distribution/distribution), built once from its Go module, and a client that pushes.

python -m tests.stores.clients.distribution FOLDER      serves FOLDER on 127.0.0.1 until Ctrl-C, and prints its host
"""

import base64
import collections.abc
import contextlib
import hashlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import typing
import urllib.parse
import urllib.request

import jwt
import yaml
from cryptography.hazmat.primitives.asymmetric import ec

from naiad.core.clock import SystemClock
from tests.stores.clients.registry import EMPTY, IMAGE_MANIFEST, digest
from tests.stores.clients.web_server import Reply, Request, web_server
from tests.stores.ports import free_port, wait_for_port
from tests.toolchain.programs import find

USER, PASSWORD = "user", "secret"
_HTPASSWD = "user:$2b$12$XZPiAotscZUsEbzERvzZvedtwE4jkao/6HnRi/poCHV4c9qVhbiqa\n"
"""The same password, as the registry keeps it."""
_SERVICE, _ISSUER = "test", "tests"


class Distribution(typing.NamedTuple):
    """A running registry.

    Attributes:
        host: of `oci://` addresses.
        tokens: what asks for tokens; None: passwords go to the registry itself.
    """

    host: str
    tokens: "TokenService | None" = None

    def push(
        self,
        name: str,
        tag: str,
        layers: collections.abc.Sequence[dict[str, typing.Any]],
        blobs: collections.abc.Iterable[bytes],
        *,
        config: str = EMPTY,
    ) -> str:
        """Push a manifest with its blobs; gives its digest.

        Args:
            name: of the repository.
            tag: of the manifest.
            layers: their descriptors.
            blobs: their contents.
            config: the media type of the config.
        """
        for blob in (b"{}", *blobs):
            place = self._send("POST", f"{name}/blobs/uploads/").headers["Location"]
            self._send("PUT", f"{place}&digest={digest(blob)}", blob)
        manifest = {
            "schemaVersion": 2,
            "mediaType": IMAGE_MANIFEST,
            "config": {"mediaType": config, "digest": digest(b"{}"), "size": 2},
            "layers": list(layers),
        }
        text = json.dumps(manifest).encode()
        self._send("PUT", f"{name}/manifests/{tag}", text, IMAGE_MANIFEST)
        return f"sha256:{hashlib.sha256(text).hexdigest()}"

    def _send(
        self, method: str, path: str, body: bytes = b"", kind: str = "application/octet-stream"
    ) -> typing.Any:
        url = path if path.startswith("http") else f"http://{self.host}/v2/{path}"
        headers = {"Content-Type": kind, "Authorization": self._authorization(url)}
        request = urllib.request.Request(url, body, headers, method=method)
        with urllib.request.urlopen(request) as response:
            response.read()
            return response

    def _authorization(self, url: str) -> str:
        if self.tokens is None:
            return basic()
        name = url.partition("/v2/")[2].partition("/blobs")[0].partition("/manifests")[0]
        return f"Bearer {self.tokens.token(f'repository:{name}:pull,push')}"


def basic() -> str:
    """The header with the password."""
    return "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()


class TokenService:
    """Signs tokens for who knows the password.

    Attributes:
        lifetime: seconds for which a token counts.
        asked: the queries that arrived.
    """

    def __init__(self) -> None:
        self.lifetime = 300
        self.asked: list[str] = []
        self._key = ec.generate_private_key(ec.SECP256R1())
        public = jwt.algorithms.ECAlgorithm.to_jwk(self._key.public_key(), as_dict=True)
        self.key_set = {"keys": [{**public, "kid": "one", "alg": "ES256", "use": "sig"}]}

    def token(self, scope: str) -> str:
        """A token for one scope, `repository:NAME:ACTIONS`."""
        kind, name, actions = scope.split(":")
        access = [{"type": kind, "name": name, "actions": actions.split(",")}]
        now = SystemClock().wall_ns() // 10**9
        claims = {"iss": _ISSUER, "aud": _SERVICE, "sub": USER, "nbf": now - 5, "iat": now, "exp": now + self.lifetime, "jti": str(now), "access": access}  # fmt: skip
        return jwt.encode(claims, self._key, algorithm="ES256", headers={"kid": "one"})

    def __call__(self, request: Request) -> Reply:
        self.asked.append(request.query)
        if request.headers["Authorization"] != basic():
            return Reply(401, b"{}")
        scope = dict(urllib.parse.parse_qsl(request.query))["scope"]
        return Reply.json({"token": self.token(scope)})


@contextlib.contextmanager
def registry(
    folder: pathlib.Path, *, password: bool = False, tokens: TokenService | None = None
) -> collections.abc.Iterator[Distribution]:
    """A registry for a context; it is built first if needed.

    Args:
        folder: for its data.
        password: whether it wants one.
        tokens: of a registry that wants tokens.
    """
    port = free_port()
    settings: dict[str, typing.Any] = {
        "version": 0.1,
        "log": {"level": "error"},
        "storage": {"filesystem": {"rootdirectory": str(folder / "data")}},
        "http": {"addr": f"127.0.0.1:{port}"},
    }
    with contextlib.ExitStack() as stack:
        if password:
            (folder / "passwords").write_text(_HTPASSWD)
            settings["auth"] = {"htpasswd": {"realm": "test", "path": str(folder / "passwords")}}
        if tokens is not None:
            keys = folder / "keys.json"
            keys.write_text(json.dumps(tokens.key_set))
            realm = f"{stack.enter_context(web_server(tokens))}/token"
            settings["auth"] = {"token": {"realm": realm, "service": _SERVICE, "issuer": _ISSUER, "jwks": str(keys), "signingalgorithms": ["ES256"]}}  # fmt: skip
        configured = folder / "config.yml"
        configured.write_text(yaml.safe_dump(settings))
        program = find(["registry"])["registry"]
        log = stack.enter_context((folder / "log").open("ab"))
        # The registry takes variables that begin with REGISTRY_ for settings, also that of a client's file of passwords.
        environment = {key: value for key, value in os.environ.items() if "REGISTRY" not in key}
        command = [program, "serve", str(configured)]
        process = stack.enter_context(
            subprocess.Popen(command, stdout=log, stderr=log, env=environment)
        )
        stack.callback(process.terminate)
        wait_for_port(port, process)
        yield Distribution(f"127.0.0.1:{port}", tokens)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with registry(pathlib.Path(sys.argv[1])) as running, contextlib.suppress(KeyboardInterrupt):
        print(running.host, flush=True)  # noqa: T201 - it is a command
        signal.pause()
