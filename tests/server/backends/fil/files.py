"""Files of tree models, written by hand: as small as each format lets them be."""

import struct

XGBOOST_JSON = (
    b'{"learner":{"attributes":{},"gradient_booster":{"model":{"trees":[]},"name":"gbtree"},'
    b'"learner_model_param":{"base_score":"[5E-1]","num_class":"3","num_feature":"4","num_target":"1"},'
    b'"objective":{"name":"multi:softprob","softmax_multiclass_param":{"num_class":"3"}}},"version":[3,2,0]}'
)


def ubj_text(text: bytes) -> bytes:
    return b"L" + struct.pack(">q", len(text)) + text


def ubj_map(**values: bytes) -> bytes:
    inside = b"".join(ubj_text(key.encode()) + value for key, value in values.items())
    return b"{" + inside + b"}"


def ubj_value(text: bytes) -> bytes:
    return b"S" + ubj_text(text)


XGBOOST_UBJ = ubj_map(
    learner=ubj_map(
        attributes=ubj_map(),
        gradient_booster=ubj_map(name=ubj_value(b"gbtree")),
        learner_model_param=ubj_map(
            base_score=ubj_value(b"[5E-1]"),
            num_class=ubj_value(b"0"),
            num_feature=ubj_value(b"4"),
            num_target=ubj_value(b"1"),
        ),
        objective=ubj_map(name=ubj_value(b"binary:logistic")),
    )
)

_NAME = b"reg:squarederror"
XGBOOST = (
    b"binf" + struct.pack("<fIiiiIII", 0.5, 4, 0, 0, 0, 1, 7, 1) + bytes(104)
    + struct.pack("<Q", len(_NAME)) + _NAME + struct.pack("<Q", 6) + b"gbtree"
    + struct.pack("<i", 1) + bytes(156)
    + struct.pack("<6i", 1, 1, 0, 0, 4, 0) + bytes(124) + struct.pack("<iiiIf", -1, -1, -1, 0, 1.0) + bytes(16)
    + struct.pack("<i", 0)
)  # fmt: skip

_TREE = b"Tree=0\nnum_leaves=1\nleaf_value=1\n\n\n"
LIGHTGBM = (
    b"tree\nversion=v4\nnum_class=1\nnum_tree_per_iteration=1\nlabel_index=0\nmax_feature_idx=3\nobjective=binary sigmoid:1\n"
    b"tree_sizes=%d\n\n" % len(_TREE)
) + _TREE + b"end of trees\n"  # fmt: skip


def array(form: str, *values: float) -> bytes:
    return struct.pack("<Q", len(values)) + struct.pack(f"<{len(values)}{form}", *values)


def checkpoint(*, major: int = 4, classes: int = 3, scores: int = 3, targets: int = 1) -> bytes:
    """A checkpoint of one tree of one leaf."""
    header = struct.pack("<iiiBB", major, 8, 1, 2, 2) + struct.pack(
        "<QiB?i", 1, 4, 2, False, targets
    )
    header += array("i", *[classes] * targets) + array("i", 1, 1) + array("i", 0) + array("i", 0)
    header += array("b", *b"softmax") + struct.pack("<ff", 1, 1) + array("d", *[0.5] * scores)
    header += array("b", *b"{}") + struct.pack("<i", 0)
    tree = struct.pack("<i?", 1, False)
    tree += array("b", 0) + array("i", -1) + array("i", -1) + array("i", -1) + array("b", 0)
    tree += array("f", 1.0) + array("f", 0.0) + array("b", 0) + array("b", 0)
    tree += array("f") + array("Q", 0) + array("Q", 0) + array("I") + array("Q", 0) + array("Q", 0)
    tree += array("Q") + array("b") + array("d") + array("b") + array("d") + array("b")
    return header + tree + struct.pack("<ii", 0, 0)


FILES = {
    "xgboost.json": XGBOOST_JSON,
    "xgboost.ubj": XGBOOST_UBJ,
    "xgboost.model": XGBOOST,
    "model.txt": LIGHTGBM,
    "checkpoint.tl": checkpoint(),
}
