"""What no Gateway, KEDA or kubelet writes into statuses, and an API server takes: of routes, ScaledObjects and nodes."""

import itertools

from tests.apiserver.client import Object
from tests.apiserver.hostile_objects import BRACKETS, COMMAS, LARGE, YEAR_0

_numbers = itertools.count()


def parents(kind: str) -> list[Object]:
    """What no Gateway writes into the status of a route."""
    reference = {"name": "public"}
    said = {"type": "Accepted", "status": "False", "reason": "A", "message": "", "lastTransitionTime": YEAR_0}  # fmt: skip
    other = {"name": "n" * 253, "namespace": "s" * 63, "port": 65535, "sectionName": "a"}
    given: list[list[Object]] = [
        [],
        [{"parentRef": reference, "conditions": []}],
        [{"parentRef": reference, "conditions": [said]}],
        [{"parentRef": reference, "conditions": [said | {"message": COMMAS[:32_768], "reason": "A" * 1_024}]}],
        [{"parentRef": reference, "conditions": [said | {"status": "Unknown", "observedGeneration": 2**63 - 1}]}],
        [{"parentRef": other, "conditions": [said | {"type": f"A{n}"} for n in range(8)]}] * 32,
        [{"parentRef": {"name": "a", "kind": "Service", "group": ""}, "conditions": [said | {"type": "ResolvedRefs"}]}],
    ]  # fmt: skip
    made = [{"parents": [{"controllerName": "example.com/a", **parent} for parent in each]} for each in given]  # fmt: skip
    return made if kind == "HTTPRoute" else made[-1:]


def scaled() -> list[Object]:
    """What KEDA does not write into the status of a ScaledObject."""
    return [
        {},
        {"conditions": []},
        {"conditions": [{"type": "Ready", "status": "False"}]},
        {"conditions": [{"type": "Ready", "status": "Unknown", "reason": "TriggerError"}] * 500},
        {"conditions": [{"type": "Ready", "status": "True", "reason": "PartialTriggerError", "message": LARGE}]},
        {"conditions": [{"type": "x" * 10_000, "status": "True"}, {"type": "Paused", "status": "True"}]},
        {"hpaName": COMMAS, "originalReplicaCount": -(2**31), "lastActiveTime": YEAR_0},
    ]  # fmt: skip


def nodes() -> list[Object]:
    """Of who is a node: amounts in every form and size, and thousands of names."""
    amounts = ("1k", "0.5", "1e3", "-5", "9" * 400, "9E", "1Ei", "100m", "1n", "1e18")
    strange = {f"example.com/{'r' * 50}-{number}": amount for number, amount in enumerate(amounts)}
    many = {f"example.com/{'r' * 40}-{number}": "1" for number in range(3_000)}
    labels = {f"example.com/{'k' * 50}{number}": "v" * 63 for number in range(3_000)}
    made: list[Object] = []
    for resources in (strange, many, {"nvidia.com/gpu": "9223372036854775807"}, {"/": "1"}, {}):
        metadata = {"name": f"hostile-{next(_numbers)}", "labels": labels}
        metadata["annotations"] = {"a": BRACKETS}
        status = {"allocatable": resources, "capacity": resources}
        made.append({"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": status})
    return made
