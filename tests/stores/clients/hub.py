"""A stand-in for the Hugging Face Hub: the API of one model repository, and its files, large ones from another host.

python -m tests.stores.clients.hub FOLDER      serves FOLDER as hf://owner/name on 127.0.0.1 until Ctrl-C, and prints the variable for clients
"""

import contextlib
import hashlib
import pathlib
import re
import sys
import threading

from tests.stores.clients.web_server import Reply, Request, web_server

_INFO = re.compile(r"/api/models/owner/name/revision/([^/]+)")
_FILE = re.compile(r"/owner/name/resolve/([^/]+)/(.+)")

LARGE = 1000
"""Files of at least so many bytes are stored outside of git, as large ones are on the Hub."""


class Hub:
    """Commits of the repository `owner/name`; the branch `main` names the last one.

    Attributes:
        commits: by their hash, the files.
        token: that requests need; "" lets every client in.
        storage: the URL of a host that serves large files; "" is this one.
        requests: that arrived.
    """

    def __init__(self) -> None:
        self.commits: dict[str, dict[str, bytes]] = {}
        self.token = ""
        self.storage = ""
        self.requests: list[Request] = []

    def commit(self, files: dict[str, bytes]) -> str:
        """Add a commit; gives its hash."""
        name = hashlib.sha1(repr((len(self.commits), files)).encode()).hexdigest()
        self.commits[name] = files
        return name

    def __call__(self, request: Request) -> Reply:
        self.requests.append(request)
        if self.token and request.headers["Authorization"] != f"Bearer {self.token}":
            return Reply(
                401, b"{}", {"X-Error-Message": "Invalid credentials in Authorization header"}
            )
        if info := _INFO.fullmatch(request.path):
            return self._info(info[1])
        if file := _FILE.fullmatch(request.path):
            return self._file(request, self.commits.get(self._commit(file[1]), {}).get(file[2]))
        return Reply(404, b"{}", {"X-Error-Code": "RepoNotFound"})

    def _commit(self, revision: str) -> str:
        return list(self.commits)[-1] if revision == "main" and self.commits else revision

    def _info(self, revision: str) -> Reply:
        name = self._commit(revision)
        if name not in self.commits:
            return Reply(404, b"{}", {"X-Error-Code": "RevisionNotFound"})
        siblings = [self._sibling(path, content) for path, content in self.commits[name].items()]
        return Reply.json({"id": "owner/name", "sha": name, "siblings": siblings})

    def _sibling(self, path: str, content: bytes) -> dict[str, object]:
        blob = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
        sibling: dict[str, object] = {"rfilename": path, "size": len(content), "blobId": blob}
        if len(content) >= LARGE:
            sha256 = hashlib.sha256(content).hexdigest()
            sibling["lfs"] = {"sha256": sha256, "size": len(content), "pointerSize": 130}
        return sibling

    def _file(self, request: Request, content: bytes | None) -> Reply:
        if content is None:
            return Reply(404, b"{}", {"X-Error-Code": "EntryNotFound"})
        if len(content) < LARGE:
            return Reply(200, content)  # without ranges
        if self.storage:
            sha256 = hashlib.sha256(content).hexdigest()
            return Reply(302, headers={"Location": f"{self.storage}/{sha256}?signature=1"})
        return Reply.file(request, content)


if __name__ == "__main__":
    root, hub = pathlib.Path(sys.argv[1]), Hub()
    paths = [path for path in root.rglob("*") if path.is_file()]
    hub.commit({str(path.relative_to(root)): path.read_bytes() for path in paths})
    with web_server(hub) as url, contextlib.suppress(KeyboardInterrupt):
        print(f"export HF_ENDPOINT={url}", flush=True)  # noqa: T201 - it is a command
        threading.Event().wait()
