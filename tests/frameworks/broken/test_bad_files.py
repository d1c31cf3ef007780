"""Model files that are cut off, changed, empty, folders, or pickles that would run code, of every framework: each fails its own model, with a reason.

Some changed files still load: of these the server has to answer, or to fail, each request.
"""

import functools
import json

import pytest

from tests.frameworks.broken.good_models import FRAMEWORKS
from tests.frameworks.broken.serving import Served, unreadable
from tests.reference.process import ServerProcess
from tests.support.waiting import wait_until
from tests.wire.plain_http import call, get

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

HOW = frozenset(("empty", "folder", "pickle", "cut_0_1", "cut_0_5", "cut_m1", "flipped", "good"))


def of(served: Served, name: str) -> dict[str, dict[str, str]]:
    """What the server says of the models of a framework, by what is wrong with them."""
    found = {key.partition("-")[2]: each for key, each in served.index.items() if key.startswith(f"{name}-")}  # fmt: skip
    return {how: each for how, each in found.items() if how in HOW}


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_a_bad_file_fails_its_model_with_a_reason(served: Served, name: str) -> None:
    mine = of(served, name)
    assert mine["good"]["state"] == "READY", mine["good"]
    for how in ("empty", "folder", "pickle"):
        if how in mine:
            assert mine[how]["state"] == "UNAVAILABLE", (how, mine[how])
    for how, each in mine.items():
        if each["state"] != "READY":
            reason = each["reason"]
            assert len(reason) > 20, (how, each)
            assert "worker process was ended" not in reason, (how, each)
            assert not unreadable(reason), (how, reason)


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_what_loads_all_the_same_answers_or_fails_its_requests(served: Served, name: str) -> None:
    good = FRAMEWORKS[name]
    for how, each in of(served, name).items():
        if each["state"] == "READY" and good.body:
            model = each["name"]
            status, reply = call(
                served.of[model].http, "POST", f"/v2/models/{model}/infer", good.body
            )
            assert status in (200, 400, 500) or "error" in json.loads(reply), (how, status, reply)
            if how == "good":
                assert status == 200, reply
    for server in served.servers:
        assert get(server.http, "/v2/health/live")[0] == 200


def test_no_pickle_has_run(served: Served) -> None:
    def is_live(server: ServerProcess) -> bool:
        return get(server.http, "/v2/health/live")[0] == 200

    for server in served.servers:
        wait_until(functools.partial(is_live, server))
    assert not served.proof.exists()
