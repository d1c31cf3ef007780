"""Starts a server on the example models, asks it what kind of file this one is, and prints the answer and the addresses.

`make run` keeps the server running afterwards; `make smoke` (`--once`) stops it. Needs nothing but the standard library and naiad.
"""

import argparse
import json
import pathlib
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

from magika_features import features, labels

HERE = pathlib.Path(__file__).resolve().parent
REPOSITORY = HERE / "model_repository"
START_TIMEOUT_SECONDS = 60.0
NAMES = ("http", "grpc", "metrics")
USUAL_PORTS = (8000, 8001, 8002)
"""Triton's, which README's requests go to."""

EXAMPLE = {
    "inputs": [
        {"name": "TEXT", "datatype": "BYTES", "shape": [1, 1], "data": ["to be or not to be"]}
    ]
}
"""A request to the model word_count."""


def main() -> int:
    """Run it; the exit status is 0 when the answer is right."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--once", action="store_true", help="answer one request and exit")
    parser.add_argument("--address", default="127.0.0.1", help="where to listen")
    asked = parser.parse_args()
    usual = dict(zip(NAMES, USUAL_PORTS, strict=True))
    taken = [] if asked.once else [port for port in USUAL_PORTS if not _is_free(port)]
    ports = _free_ports() if asked.once or taken else usual
    for ending in (signal.SIGTERM, signal.SIGHUP):  # as Ctrl-C: the server ends with this process
        signal.signal(ending, signal.default_int_handler)
    started = time.perf_counter()
    # A session of its own: Ctrl-C reaches it once, through `_stop`; a second signal would cut its drain short. What it has to
    # show (a table, addresses) is shown below; its warnings and errors come through.
    server = subprocess.Popen(  # noqa: S603 - our own server with our own arguments
        [
            *(sys.executable, "-m", "naiad", "serve", "--model-repository", str(REPOSITORY)),
            *(word for name in ports for word in (f"--{name}-port", str(ports[name]))),
            *("--http-address", asked.address, "--grpc-address", asked.address),
            "--log-info=false",
        ],
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        base = f"http://{asked.address}:{ports['http']}"
        if not _wait_until_ready(base, server):
            print("The server did not become ready; its own lines above say why.", file=sys.stderr)
            return 1
        ready = time.perf_counter() - started
        right = _ask(base, ready=ready)
        if asked.once:
            return 0 if right else 1
        _print_addresses(asked.address, ports, taken)
        print("\nServing until Ctrl-C.", flush=True)
        return server.wait()
    except KeyboardInterrupt:
        print("\nStopping: requests in flight are finished, models unloaded …", flush=True)
        _stop(server)
        print("Stopped.")
        return 0
    finally:
        _stop(server)


def _free_ports() -> dict[str, int]:
    """A free port for each protocol."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in NAMES]
    numbers = [sock.getsockname()[1] for sock in sockets]
    for sock in sockets:
        sock.close()
    return dict(zip(NAMES, numbers, strict=True))


def _is_free(port: int) -> bool:
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


def _wait_until_ready(base: str, server: subprocess.Popen[bytes]) -> bool:
    end = time.monotonic() + START_TIMEOUT_SECONDS
    while time.monotonic() < end and server.poll() is None:
        try:
            with urllib.request.urlopen(f"{base}/v2/health/ready", timeout=1):  # noqa: S310 - http on loopback
                return True
        except (urllib.error.URLError, OSError):
            time.sleep(0.02)
    return False


def _ask(base: str, *, ready: float) -> bool:
    """Send this very file to magika and print what it says."""
    me = pathlib.Path(__file__)
    request = {
        "inputs": [
            {
                "name": "bytes",
                "datatype": "INT32",
                "shape": [1, 2048],
                "data": features(me.read_bytes()),
            }
        ]
    }
    body = json.dumps(request).encode()
    url = f"{base}/v2/models/magika/infer"
    milliseconds = []
    for _ in range(2):  # the second one shows the latency without the first one's warming up
        before = time.perf_counter()
        with urllib.request.urlopen(url, data=body, timeout=30) as reply:  # noqa: S310 - http on loopback
            answer = json.load(reply)
        milliseconds.append((time.perf_counter() - before) * 1000)
    scores = answer["outputs"][0]["data"]
    best = max(range(len(scores)), key=scores.__getitem__)
    kind = labels(REPOSITORY)[best]
    print(f"\nmagika says: {me.name} is {kind} (score {scores[best]:.3f})")
    print(
        f"ready after {ready:.2f} s; first answer in {milliseconds[0]:.1f} ms, the next in {milliseconds[1]:.1f} ms\n"
    )
    return kind == "python"


def _print_addresses(address: str, ports: dict[str, int], taken: list[int]) -> None:
    """Where the server is, and a request that reaches it."""
    if taken:
        numbers = " and ".join(filter(None, (", ".join(map(str, taken[:-1])), str(taken[-1]))))
        print(
            f"Another program listens on {numbers}, so this server took other ports than README's:\n"
        )
    print(f"  HTTP      http://{address}:{ports['http']}")
    print(f"  gRPC      {address}:{ports['grpc']}")
    print(f"  metrics   http://{address}:{ports['metrics']}/metrics")
    print(f"  API docs  http://{address}:{ports['http']}/docs")
    body = json.dumps(EXAMPLE, separators=(",", ":"))
    print(f"\nTry:  curl http://{address}:{ports['http']}/v2/models/word_count/infer -d '{body}'")
    sys.stdout.flush()


def _stop(server: subprocess.Popen[bytes]) -> None:
    if server.poll() is None:
        server.send_signal(signal.SIGTERM)
        try:
            server.wait(timeout=10)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


if __name__ == "__main__":
    sys.exit(main())
