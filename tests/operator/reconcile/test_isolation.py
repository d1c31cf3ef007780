"""A reconcile is as much work beside any number of other services and their objects as alone, told by the functions that it calls.

What it costs beside hostile ones in processor time is measured by `benchmarks.operator.isolation`.
"""

import pytest

from benchmarks.operator import policy_cost
from naiad_operator.queue import Key
from naiad_operator.reconcile.reconciler import Reconciler
from tests.apiserver.hostile_objects import TEXTS, child
from tests.support.calls import Calls

OTHERS = 300


async def work(reconciler: Reconciler) -> int:
    """How many functions a reconcile of the service calls."""
    calls = Calls()
    with calls.watched():
        await reconciler.reconcile(policy_cost.KEY)
    return calls.count


@pytest.mark.parametrize("namespace", ["models", "elsewhere"])
async def test_others_make_a_reconcile_no_more_work(namespace: str) -> None:
    reconciler = policy_cost.reconciler_with(policy_cost.Api(), {"default": True})
    for _ in range(5):
        await reconciler.reconcile(policy_cost.KEY)
    alone = await work(reconciler)
    stores = reconciler._dependencies
    for number in range(OTHERS):
        name = f"other-{number}"
        identity = {"uid": f"other-uid-{number}", "resourceVersion": str(10_000 + number)}
        metadata = {**policy_cost.SERVICE["metadata"], **identity, "name": name, "namespace": namespace}  # fmt: skip
        stores.services.put(Key(namespace, name), {**policy_cost.SERVICE, "metadata": metadata})
        text = list(TEXTS.values())[number % len(TEXTS)]
        pod = child("Pod", namespace, of=name, annotations={"a": text})
        pod["metadata"] |= {**identity, "uid": f"pod-uid-{number}"}
        stores.children.put("Pod", pod)
    assert len(stores.children) >= OTHERS
    # A few calls are Python's own, as of the garbage collector: one per other service would be hundreds.
    assert await work(reconciler) <= alone + OTHERS // 10
