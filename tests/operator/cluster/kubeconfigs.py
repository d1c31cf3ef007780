"""Kubeconfigs of tests, and what is loaded of them."""

import json
import sys
from pathlib import Path
from typing import Any

from naiad_operator.cluster.credentials import Credentials, Endpoint, find

ONE = "https://one.example.com:6443"
USER = {"token": "secret", "tokenFile": None}
PLUGIN = {"command": "no-such-plugin", "apiVersion": "client.authentication.k8s.io/v1"}


def content(user: dict[str, Any], **cluster: Any) -> dict[str, Any]:
    return {
        "current-context": "one",
        "contexts": [
            {"name": "one", "context": {"cluster": "c", "user": "u", "namespace": "team"}},
            {"name": "two", "context": {"cluster": "c2", "user": "u"}},
        ],
        "clusters": [
            {"name": "c", "cluster": {"server": f"{ONE}/", **cluster}},
            {"name": "c2", "cluster": {"server": "https://two.example.com"}},
        ],
        "users": [{"name": "u", "user": user}],
    }


def kubeconfig(path: Path, user: dict[str, Any], **cluster: Any) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(content(user, **cluster)), encoding="utf-8")
    return path


async def found(path: Path, **more: Any) -> Endpoint:
    return (await find(kubeconfig=str(path), **more)).endpoint


def plugin(folder: Path, code: str, **more: Any) -> Path:
    """A kubeconfig whose user is what a Python program prints; it can count its runs in the file `runs`."""
    script = folder / "plugin.sh"
    script.write_text(f"#!/bin/sh\necho run >> runs\nexec {sys.executable} -c '{code}'\n")
    script.chmod(0o755)
    return kubeconfig(folder / "config", {"exec": {**PLUGIN, "command": "./plugin.sh", **more}})


def returning(**status: str) -> str:
    return f"import json; print(json.dumps({json.dumps({'status': status})}))"


def runs(folder: Path) -> int:
    return len((folder / "runs").read_text().splitlines())


class Clock:
    """Time that a test moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


async def loaded(path: Path, clock: Clock) -> Credentials:
    return Credentials(str(path), await found(path), clock=clock)


async def sent(access: Credentials) -> str:
    """What the next request proves itself with."""
    return (await access.current()).authorization
