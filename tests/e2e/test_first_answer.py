"""The request of `make cluster-demo`, which follows the service's Ready at once."""

import itertools
import typing

import pytest
from tritonclient.utils import InferenceServerException

from e2e import first_answer


def _refusing(times: float) -> typing.Callable[[], str]:
    """A request that the ingress controller refuses a number of times."""
    count = itertools.count()

    def send() -> str:
        if next(count) < times:
            raise InferenceServerException("no available server", "503")
        return "answer"

    return send


def test_the_first_request_waits_for_the_ingress_controller() -> None:
    assert (
        first_answer.when_routed(_refusing(3), clock=lambda: 0.0, sleep=lambda _: None) == "answer"
    )


def test_a_route_that_does_not_come_is_an_error() -> None:
    clock = itertools.count()
    with pytest.raises(InferenceServerException, match="no available server"):
        first_answer.when_routed(_refusing(float("inf")), clock=lambda: float(next(clock)), sleep=lambda _: None)  # fmt: skip
