"""Keeps three models busy that share one resource, and prints which share of the executions each of them has.

python3 examples/sharing_a_device/drive.py localhost:8000 --seconds 10
Needs nothing but the standard library.
"""

import argparse
import http.client
import json
import sys
import threading
import time

PRIORITIES = {"interactive": 1, "batch_small": 2, "batch_large": 4}
"""As in the models' configs."""

_CONNECTIONS = 4
"""Per model: while a request of it runs, others wait. A model without waiting requests needs no turn."""

_TENSOR = {"name": "MILLISECONDS", "datatype": "INT32", "shape": [1], "data": [5]}
_BODY = json.dumps({"inputs": [_TENSOR]})


class Client:
    """Sends requests to one model over one connection, each as soon as the one before it is answered."""

    def __init__(self, address: str, model: str, end: float) -> None:
        self.answered = 0
        self.error = ""
        self._address = address
        self._path = f"/v2/models/{model}/infer"
        self._end = end
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            connection = http.client.HTTPConnection(self._address, timeout=20)
            while time.monotonic() < self._end:
                connection.request("POST", self._path, _BODY)
                response = connection.getresponse()
                text = response.read().decode()
                if response.status != http.HTTPStatus.OK:
                    self.error = f"{self._path}: {response.status}: {text}"
                    return
                self.answered += 1
        except OSError as error:
            self.error = f"{self._address}: {error}"


def expected(models: dict[str, int]) -> dict[str, float]:
    """The shares that follow from the priorities: 1/priority each, of the sum of all."""
    weights = {model: 1 / priority for model, priority in models.items()}
    return {model: weight / sum(weights.values()) for model, weight in weights.items()}


def main() -> int:
    """Run it; the exit status is 0 when every request was answered."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("address", nargs="?", default="localhost:8000", help="host:port of HTTP")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--models", default=",".join(PRIORITIES), help="those to send requests to")
    options = parser.parse_args()
    models = {name: PRIORITIES[name] for name in options.models.split(",")}
    end = time.monotonic() + options.seconds
    clients = [
        (model, Client(options.address, model, end))
        for model in models
        for _ in range(_CONNECTIONS)
    ]
    for _, client in clients:
        client.thread.join(options.seconds + 30)
    errors = [client.error for _, client in clients if client.error]
    if errors:
        print(errors[0], file=sys.stderr)
        return 1
    counts = dict.fromkeys(models, 0)
    for model, client in clients:
        counts[model] += client.answered
    shares = expected(models)
    total = sum(counts.values())
    print(f"{'model':<14}{'priority':>8}{'executions':>12}{'share':>8}{'expected':>10}")
    for model, count in counts.items():
        print(
            f"{model:<14}{models[model]:>8}{count:>12}{count / total:>8.1%}{shares[model]:>10.1%}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
