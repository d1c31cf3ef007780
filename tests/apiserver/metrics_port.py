"""A pod's metrics port: `/status` with the states of models. No containers run, so pods of the tests have the address of this machine."""

import contextlib
import json
import threading
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from typing_extensions import override

from tests.apiserver.client import Object


@contextlib.contextmanager
def serving(models: Sequence[Object]) -> Iterator[int]:
    """Serves these model states as long as the block; gives the port."""
    body = json.dumps({"models": models}).encode()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path == "/status" else 404)
            self.end_headers()
            self.wfile.write(body)

        @override
        def log_message(self, format: str, *args: object) -> None:
            """Says nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
