"""What to do about operators that are not in the table, by their kind. Pure."""

import collections.abc

_CONTROL = frozenset(
    ("If", "While", "Do", "For", "ONNXWhile", "RecurrentNetwork", "AsyncIf", "CreateScope", "HasScope")
)  # fmt: skip
_DETECTION = frozenset(
    (
        "GenerateProposals", "GenerateProposalsCPP", "GenerateProposalsSingleImage", "CollectAndDistributeFpnRpnProposals", "CollectRpnProposals",
        "DistributeFpnProposals", "BatchPermutation", "RoIAlignRotated", "RoIPool", "PSRoIPool", "HeatmapMaxKeypoint", "NMS", "BoxesAndNMS", "AliasWithName",
    )
)  # fmt: skip

_WAYS: tuple[tuple[collections.abc.Callable[[str], bool], str], ...] = (
    (
        lambda kind: kind.startswith("Int8"),
        "{} compute with quantised numbers: serve the FP32 net that was quantised, or a quantised ONNX model",
    ),
    (
        lambda kind: kind in _CONTROL,
        "{} run nets inside of nets: export the model to ONNX by the framework that trained it, which has If and Loop",
    ),
    (
        lambda kind: kind in _DETECTION,
        "{} belong to a detector: end the net before them and compute the rest in a Python model, as two steps of an ensemble, or export the detector to ONNX",
    ),
    (
        lambda _: True,
        "{}: export the model to ONNX by the framework that trained it, or compute them in a Python model, as a step of an ensemble",
    ),
)


def ways_out(kinds: collections.abc.Iterable[str]) -> list[str]:
    """A sentence for each kind of operators of which there are some, which names their types."""
    left = list(dict.fromkeys(kinds))
    said: list[str] = []
    for belongs, way in _WAYS:
        named = [kind for kind in left if belongs(kind)]
        left = [kind for kind in left if kind not in named]
        if named:
            said.append(way.format(", ".join(named)))
    return said
