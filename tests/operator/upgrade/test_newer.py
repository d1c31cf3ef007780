"""How an operator makes way for a newer one."""

from naiad_operator.api.parsing import service
from naiad_operator.queue import Key
from naiad_operator.upgrade.newer import NewerOperators
from tests.support import manifests

KEY = Key("models", "demo")
NEW = {"replicas": 2}


def edited(generation: int, *, observed: int = 3) -> service.InferenceService:
    manifest = manifests.resource()
    manifest["metadata"]["generation"] = generation
    return service.parse({**manifest, "status": {"observedGeneration": observed, "replicas": 1}})


def test_an_edit_is_left_to_the_newer_operator_for_a_while() -> None:
    newer = NewerOperators()
    assert newer.edit_delay(KEY, edited(4), now=100.0) == 10.0
    assert newer.edit_delay(KEY, edited(4), now=107.0) == 3.0
    assert newer.edit_delay(KEY, edited(5), now=107.0) == 10.0, "another edit"
    assert newer.edit_delay(KEY, edited(5), now=117.0) == 0.0
    assert newer.edit_delay(KEY, edited(5), now=200.0) == 0.0
    assert newer.edit_delay(KEY, edited(6, observed=6), now=200.0) == 0.0


def test_a_status_is_written_now_and_then() -> None:
    newer = NewerOperators()
    seen = edited(3)
    assert newer.status_delay(KEY, seen, NEW, now=100.0) == 0.0
    assert newer.status_delay(KEY, seen, NEW, now=101.0) == 59.0
    assert newer.status_delay(KEY, seen, {"replicas": 1}, now=101.0) == 0.0, "nothing to write"
    assert newer.status_delay(KEY, seen, NEW, now=160.0) == 0.0
    assert newer.status_delay(KEY, seen, NEW, now=161.0) == 59.0
    newer.forget(KEY)
    assert newer.status_delay(KEY, seen, NEW, now=161.0) == 0.0
    assert newer.edit_delay(KEY, edited(5), now=161.0) == 10.0
