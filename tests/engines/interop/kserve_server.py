"""A server of KServe's own with two models, for `test_kserve.py`: `double` and `fails`. Runs where `kserve` is installed."""

import sys

import kserve


class Double(kserve.Model):
    """Two times each value; NaN for 0."""

    def __init__(self):
        super().__init__("double")
        self.ready = True

    def predict(self, payload, headers=None):
        """The rows of the request, doubled."""
        rows = payload["instances"]
        return {
            "predictions": [[2 * each if each else float("nan") for each in row] for row in rows]
        }


class Fails(kserve.Model):
    """Raises."""

    def __init__(self):
        super().__init__("fails")
        self.ready = True

    def predict(self, payload, headers=None):
        """Never returns."""
        raise RuntimeError("out of order")


if __name__ == "__main__":
    server = kserve.ModelServer(http_port=int(sys.argv[1]), enable_grpc=False)
    server.start([Double(), Fails()])
