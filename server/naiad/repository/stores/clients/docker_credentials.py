"""User and password of a registry, from the files and credential helpers of docker and podman; read again for each token."""

import base64
import binascii
import collections.abc
import os
import pathlib
import re
import subprocess

import msgspec

from naiad.repository.stores.objects import StoreError

_HELPER = re.compile(r"[A-Za-z0-9._-]+")
_HELPER_S = 30

_HUB, _HUB_KEY = "registry-1.docker.io", "https://index.docker.io/v1/"
"""The host of Docker Hub, and what it is called in the files."""

Environ = collections.abc.Mapping[str, str]


class _Entry(msgspec.Struct, frozen=True):
    auth: str = ""
    username: str = ""
    password: str = ""


class _File(msgspec.Struct, frozen=True, rename="camel"):
    auths: dict[str, _Entry] = {}
    cred_helpers: dict[str, str] = {}
    creds_store: str = ""


class _Login(msgspec.Struct, frozen=True, rename="pascal"):
    username: str
    secret: str


def login(registry: str, environ: Environ = os.environ) -> tuple[str, str] | None:
    """User and password of a registry; None without an entry: it is asked anonymously.

    Raises:
        StoreError: a file or a credential helper does not work.
    """
    names = [registry, *(f"https://{registry}{end}" for end in ("", "/", "/v1/", "/v2/"))]
    names += [_HUB_KEY, "docker.io"] if registry == _HUB else []
    for path in _paths(environ):
        file = _read(path)
        if file is None:
            continue
        for name in names:
            helper = file.cred_helpers.get(name) or (file.creds_store if name in file.auths else "")
            if helper:
                return _from_helper(helper, name, path)
            if (entry := file.auths.get(name)) and entry.auth:
                return _decoded(entry.auth, name, path)
            if entry and entry.username:
                return entry.username, entry.password
    return None


def _paths(environ: Environ) -> collections.abc.Iterator[pathlib.Path]:
    """The files, the first that names a registry counts: podman's, then docker's."""
    if path := environ.get("REGISTRY_AUTH_FILE"):
        yield pathlib.Path(path)
    if runtime := environ.get("XDG_RUNTIME_DIR"):
        yield pathlib.Path(runtime, "containers", "auth.json")
    if folder := environ.get("DOCKER_CONFIG"):
        yield pathlib.Path(folder, "config.json")
    elif home := environ.get("HOME"):
        yield pathlib.Path(home, ".docker", "config.json")


def _read(path: pathlib.Path) -> _File | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=_File)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StoreError(
            f"{path}: the credentials of registries cannot be read: {error.strerror}"
        ) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise StoreError(f"{path}: is not a valid file of credentials: {error}") from None


def _decoded(auth: str, name: str, path: pathlib.Path) -> tuple[str, str]:
    try:
        user, colon, password = base64.b64decode(auth, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        colon = ""
    if not colon:
        raise StoreError(
            f'{path}: the "auth" of {name} is not USER:PASSWORD in base64; run docker login again'
        )
    return user, password


def _from_helper(helper: str, name: str, path: pathlib.Path) -> tuple[str, str]:
    program = f"docker-credential-{helper}"
    if not _HELPER.fullmatch(helper):
        raise StoreError(f"{path}: {helper!r} is not the name of a credential helper")
    try:
        output = subprocess.run(  # noqa: S603 - the user's own file names it
            [program, "get"],
            input=name.encode(),
            capture_output=True,
            timeout=_HELPER_S,
            check=True,
        ).stdout
        found = msgspec.json.decode(output, type=_Login)
    except FileNotFoundError:
        reason = "is not installed"
    except subprocess.TimeoutExpired:
        reason = f"does not answer in {_HELPER_S} s"
    except (OSError, subprocess.CalledProcessError, msgspec.DecodeError, UnicodeDecodeError):
        reason = f"gives no credentials for {name}; log in again"
    else:
        return found.username, found.secret
    raise StoreError(f"{path} names the credential helper {program}, which {reason}")
