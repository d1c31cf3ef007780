"""What Google has before its buckets, and fake-gcs-server has not: tokens for the keys of service accounts, and roles. A program of its own in the cluster.

python google_front.py PORT STORE      PORT: where it listens; STORE: host and port of fake-gcs-server

`POST /token` verifies what a key has signed, as oauth2.googleapis.com does; `GET` of anything else needs such a token, and an account that may read
the bucket. `PUT /accounts` says which there are: by e-mail address `{"key": PUBLIC KEY, "buckets": [NAMES]}`. It runs in the server's image, which has google-auth.
"""

import http.client
import http.server
import json
import secrets
import sys
import typing
import urllib.parse

import google.auth.exceptions
from google.auth import jwt

_PASSED_ON = ("range", "accept")
_KEPT = ("content-type", "content-range")
_INVALID_GRANT = {"error": "invalid_grant", "error_description": "Invalid JWT Signature."}


class Front(http.server.ThreadingHTTPServer):
    """The server.

    Args:
        port: where it listens.
        store: host and port of fake-gcs-server.

    Attributes:
        accounts: by e-mail address.
        emails: who each token was given to.
    """

    def __init__(self, port: int, store: str) -> None:
        super().__init__(("", port), _Handler)
        self.store = store
        self.accounts: dict[str, dict[str, typing.Any]] = {}
        self.emails: dict[str, str] = {}


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Front

    def do_PUT(self) -> None:
        self.server.accounts = json.loads(self._body())
        self._send(200, {})

    def do_POST(self) -> None:
        try:
            assertion = urllib.parse.parse_qs(self._body())["assertion"][0]
            email = jwt.decode(assertion, verify=False)["iss"]  # type: ignore[no-untyped-call]
            jwt.decode(assertion, certs=self.server.accounts[email]["key"])  # type: ignore[no-untyped-call]
        except (google.auth.exceptions.GoogleAuthError, ValueError, KeyError):
            self._send(400, _INVALID_GRANT)
            return
        token = secrets.token_hex(16)
        self.server.emails[token] = email
        self._send(200, {"access_token": token, "expires_in": 3600, "token_type": "Bearer"})

    def do_GET(self) -> None:
        token = self.headers.get("authorization", "").removeprefix("Bearer ")
        email = self.server.emails.get(token, "")
        response, body = self._from_store()
        bucket = urllib.parse.urlsplit(self.path).path.partition("/b/")[2].partition("/")[0]
        may_read = bucket in self.server.accounts.get(email, {}).get("buckets", ())
        if self.path == "/health":
            self._send(200, {})
        elif not email:
            self._refuse(401, "Anonymous caller does not have access")
        elif not may_read and response.status != http.HTTPStatus.NOT_FOUND:
            self._refuse(403, f"{email} does not have storage.objects.list access")
        else:
            kept = {name: response.headers[name] for name in _KEPT if name in response.headers}
            self._send_bytes(response.status, body, kept)

    def _from_store(self) -> tuple[http.client.HTTPResponse, bytes]:
        connection = http.client.HTTPConnection(self.server.store, timeout=30)
        headers = {name: self.headers[name] for name in _PASSED_ON if name in self.headers}
        connection.request("GET", self.path, headers=headers)
        response = connection.getresponse()
        body = response.read()
        connection.close()
        return response, body

    def _body(self) -> str:
        return self.rfile.read(int(self.headers["content-length"])).decode()

    def _refuse(self, status: int, message: str) -> None:
        self._send(status, {"error": {"code": status, "message": message}})

    def _send(self, status: int, content: object) -> None:
        headers = {"content-type": "application/json"}
        self._send_bytes(status, json.dumps(content).encode(), headers)

    def _send_bytes(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


if __name__ == "__main__":
    Front(int(sys.argv[1]), sys.argv[2]).serve_forever()
