"""Sends requests to the model `word_count` at a steady rate over connections that stay open, and counts those that fail.

python3 examples/steady_load.py quickstart.example.com        # until Ctrl-C; one line per second
"""

import contextlib
import http.client
import json
import sys
import threading
import time

_CONNECTIONS = 8
_INTERVAL_S = 0.05
_TENSOR = {"name": "TEXT", "datatype": "BYTES", "shape": [1, 1], "data": ["to be or not to be"]}
_BODY = json.dumps({"inputs": [_TENSOR]})

sent = failed = 0
lock = threading.Lock()


def send_for_ever(host: str) -> None:
    """Sends one request after the other over one connection."""
    global sent, failed  # noqa: PLW0603 - a script
    connection = http.client.HTTPConnection(host, timeout=20)
    while True:
        answered = False
        try:
            connection.request("POST", "/v2/models/word_count/infer", _BODY)
            response = connection.getresponse()
            response.read()
            answered = response.status == http.HTTPStatus.OK
        except (OSError, http.client.HTTPException):
            connection.close()  # the next request opens another one
        with lock:
            sent += 1
            failed += not answered
        time.sleep(_INTERVAL_S)


if __name__ == "__main__":
    for _ in range(_CONNECTIONS):
        threading.Thread(target=send_for_ever, args=sys.argv[1:2], daemon=True).start()
    with contextlib.suppress(KeyboardInterrupt):
        while True:
            time.sleep(1)
            print(f"{sent} requests, {failed} failed", flush=True)
