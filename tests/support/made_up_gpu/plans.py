"""Plans for the made-up TensorRT: the beginning of a real plan, and JSON."""

import json
from typing import Any

VERSION = (11, 4, 0, 106)
CAPABILITY = (9, 0)

Ranges = list[list[int]]


def tensor(name: str, shape: list[int], dtype: str = "FLOAT", **more: Any) -> dict[str, Any]:
    """An input; an output with `value`, its values as an expression over the inputs. `depends`: its shape follows from values."""
    return {
        "name": name,
        "input": "value" not in more,
        "dtype": dtype,
        "shape": shape,
        "format": "LINEAR",
        "is_shape": False,
        "depends": False,
        **more,
    }


def profile(values: dict[str, Ranges] | None = None, **shapes: Ranges) -> dict[str, Any]:
    """The least, best and most dimensions of each input; of shape tensors also the values."""
    return {"shapes": shapes, "values": values or {}}


def plan(
    tensors: list[dict[str, Any]],
    profiles: list[dict[str, Any]],
    *,
    version: tuple[int, ...] = VERSION,
    capability: tuple[int, int] = CAPABILITY,
    **more: Any,
) -> bytes:
    """The bytes of a plan."""
    head = b"ftrt" + bytes(20) + bytes(version)
    body = {"tensors": tensors, "profiles": profiles, "capability": capability, **more}
    return head + json.dumps(body).encode()


def doubling(most: int = 8, dtype: str = "FLOAT") -> bytes:
    """Y = X * 2, rows of 4, in one profile."""
    return plan(
        [
            tensor("X", [-1, 4], dtype),
            tensor("Y", [-1, 4], dtype, value="X * 2" if dtype != "BOOL" else "~X"),
        ],
        [profile(X=[[1, 4], [min(4, most), 4], [most, 4]])],
    )


def shape_tensors() -> bytes:
    """S says the shape of Y, and comes back as T; D is a row of anything."""
    return plan(
        [
            tensor("D", [-1, 2]),
            tensor("S", [3], "INT32", is_shape=True),
            tensor("Y", [-1, -1, -1], value="np.full(tuple(S), D.shape[0])"),
            tensor("T", [3], "INT64", is_shape=True, value="S"),
        ],
        [
            profile(
                {"S": [[1, 1, 1], [4, 4, 4], [8, 32, 32]]},
                D=[[1, 2], [4, 2], [8, 2]],
                S=[[3], [3], [3]],
            )
        ],
    )


def nonzero() -> bytes:
    """I, the places of the elements that are not 0: its shape follows from values."""
    return plan(
        [
            tensor("X", [-1]),
            tensor("I", [-1], "INT64", value="np.flatnonzero(X)", depends=True),
        ],
        [profile(X=[[1], [8], [16]])],
    )
