"""The API server's audit log: every request by the operator (its static user, or any service account outside kube-system).

So "nothing was written" and "nothing was read" are counted where it cannot be argued with.
"""

import collections
import json
from pathlib import Path
from typing import Any

_READS = ("get", "list", "watch")


class AuditLog:
    """The requests that were logged so far.

    Args:
        path: the file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def writes(self, since: int = 0, *, namespace: str = "") -> list[dict[str, Any]]:
        """The operator's writes, as the API server saw them.

        Args:
            since: from which of all writes on.
            namespace: only those to this namespace; "" gives all.
        """
        found = [line for line in self._lines() if line["verb"] not in _READS][since:]
        wanted = [each for each in found if _namespace_of(each) == namespace]
        return wanted if namespace else found

    def write_count(self) -> int:
        """How many writes that log holds: what is asked often while something is measured must not cost anything."""
        log = self._text().rpartition(b"\n")[0]
        reads = sum(log.count(b'"verb":"%s"' % verb.encode()) for verb in _READS)
        return log.count(b'"verb":"') - reads

    def requests(self) -> collections.Counter[tuple[str, str]]:
        """The operator's requests so far by verb and resource ("list inferenceservices", "get /api"); a watch counts when it ends."""
        return collections.Counter((line["verb"], _resource_of(line)) for line in self._lines())

    def _lines(self) -> list[dict[str, Any]]:
        # Behind the last line break is a line that is only being written.
        return [json.loads(line) for line in self._text().rpartition(b"\n")[0].splitlines()]

    def _text(self) -> bytes:
        return self._path.read_bytes() if self._path.exists() else b""


def policy(user: str) -> dict[str, Any]:
    """What is logged: the requests of `user` and of service accounts outside kube-system."""
    ours = {"level": "Metadata"}
    return {
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived", "ResponseStarted"],
        "rules": [
            {
                "level": "None",
                "userGroups": ["system:serviceaccounts:kube-system", "system:masters"],
            },
            ours | {"users": [user]},
            ours | {"userGroups": ["system:serviceaccounts"]},
            {"level": "None"},
        ],
    }


def _resource_of(line: dict[str, Any]) -> str:
    reference = line.get("objectRef") or {}
    parts = [reference.get("resource"), reference.get("subresource")]
    return "/".join(filter(None, parts)) or str(line["requestURI"]).partition("?")[0]


def _namespace_of(write: dict[str, Any]) -> str:
    namespace: str = (write.get("objectRef") or {}).get("namespace") or ""
    return namespace
