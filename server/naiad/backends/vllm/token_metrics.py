"""The metrics of a language model on the server's metrics page: names, help texts and buckets of Triton's vllm backend (src/utils/metrics.py).

They are measured here, by what the engine hands over, and not by vllm's own loggers, whose interface vllm calls unstable. Each change is a message
to the server and back, so a thread of its own sends them, one for the instance, and no token waits for it.
"""

import queue
import threading
from collections.abc import Iterator
from typing import Any, NamedTuple

from naiad.backends.python.api.errors import TritonModelException
from naiad.backends.python.api.logger import model_logger
from naiad.backends.python.api.metrics import MetricFamily

_FIRST_TOKEN = [
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0,
]  # fmt: skip
_NEXT_TOKEN = [0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5]
_REQUEST = [1.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0]
_SEQUENCES = [1.0, 2.0, 5.0, 10.0, 20.0]

_MOST_WAITING = 100_000
"""Changes that wait to be sent; more are dropped, because the server does not keep up."""


class Finished(NamedTuple):
    """A request that has its whole answer: seconds from its arrival, tokens of its prompt, tokens that were made, sequences."""

    seconds: float
    prompt_tokens: int
    tokens: int
    sequences: int


class TokenMetrics:
    """The families of an instance. Making it asks the server, which waits.

    Args:
        model: the model's name.
        version: its version.
        longest: the largest number of tokens of a request, for the buckets.
    """

    def __init__(self, *, model: str, version: str, longest: int) -> None:
        labels = {"model": model, "version": version}
        tokens = [float(bound) for bound in bounds_1_2_5(longest)]
        self._log = model_logger(model)
        self._families: list[MetricFamily] = []

        def counter(name: str, text: str) -> Any:
            return self._family(name, text, MetricFamily.COUNTER).Metric(labels)

        def histogram(name: str, text: str, bounds: "list[float]") -> Any:
            return self._family(name, text, MetricFamily.HISTOGRAM).Metric(labels, bounds)

        self._prompt_tokens = counter(
            "vllm:prompt_tokens_total", "Number of prefill tokens processed."
        )
        self._tokens = counter(
            "vllm:generation_tokens_total", "Number of generation tokens processed."
        )
        self._first = histogram(
            "vllm:time_to_first_token_seconds",
            "Histogram of time to first token in seconds.",
            _FIRST_TOKEN,
        )
        self._next = histogram(
            "vllm:time_per_output_token_seconds",
            "Histogram of time per output token in seconds.",
            _NEXT_TOKEN,
        )
        self._request = histogram(
            "vllm:e2e_request_latency_seconds",
            "Histogram of end to end request latency in seconds.",
            _REQUEST,
        )
        self._prompt_size = histogram(
            "vllm:request_prompt_tokens", "Number of prefill tokens processed.", tokens
        )
        self._size = histogram(
            "vllm:request_generation_tokens", "Number of generation tokens processed.", tokens
        )
        self._sequences = histogram(
            "vllm:request_params_n", "Histogram of the n request parameter.", _SEQUENCES
        )
        self._changes: queue.Queue[tuple[Any, str, float] | None] = queue.Queue()
        self._thread = threading.Thread(target=self._send, name="vllm-metrics", daemon=True)
        self._thread.start()

    def first_token(self, seconds: float, prompt_tokens: int) -> None:
        """The first token of a request is there, so long after the request."""
        self._change(self._first, "observe", seconds)
        self._change(self._prompt_tokens, "increment", prompt_tokens)

    def further_tokens(self, count: int, seconds: float) -> None:
        """Further tokens of a request are there, so long after the one before."""
        for _ in range(count):
            self._change(self._next, "observe", seconds / count)

    def made(self, count: int) -> None:
        """Tokens were made."""
        self._change(self._tokens, "increment", count)

    def finished(self, request: Finished) -> None:
        """A request has its whole answer."""
        self._change(self._request, "observe", request.seconds)
        self._change(self._prompt_size, "observe", request.prompt_tokens)
        self._change(self._size, "observe", request.tokens)
        self._change(self._sequences, "observe", request.sequences)

    def close(self) -> None:
        """Send what waits, and end the thread."""
        self._changes.put(None)
        self._thread.join(5)

    def _family(self, name: str, text: str, kind: Any) -> MetricFamily:
        family = MetricFamily(name, text, kind)
        self._families.append(family)  # a family leaves the page with its last reference
        return family

    def _change(self, metric: Any, operation: str, value: float) -> None:
        if value and self._changes.qsize() < _MOST_WAITING:
            self._changes.put((metric, operation, value))

    def _send(self) -> None:
        for metric, operation, value in iter(self._changes.get, None):
            try:
                getattr(metric, operation)(value)
            except TritonModelException as error:
                self._log.error("a metric could not be changed: %s", error)


def bounds_1_2_5(largest: int) -> Iterator[int]:
    """Upper bounds 1, 2, 5, 10, 20, 50 … up to a number, which is at least 1."""
    power = 1
    while power <= largest:
        for step in (1, 2, 5):
            if power * step <= largest:
                yield power * step
        power *= 10
