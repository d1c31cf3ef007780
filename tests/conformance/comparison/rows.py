"""The rows of docs/reference/triton-behaviour.md: which of them Naiad claims, and why no scenario can show some of these.

The closing report of a conformance run prints all of them, the whole table being the denominator. A row that is shown needs
no reason here, and a test says that none has one.
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

_PAGE = Path(__file__).parents[3] / "docs/reference/triton-behaviour.md"

TABLE: dict[str, str] = dict(
    re.findall(r"^\| (\d+\.\d+) \| (.*?) \|", _PAGE.read_text(encoding="utf-8"), re.MULTILINE)
)
"""The name of each row of the table, by its number, in its order."""

_CLAIMED = {
    1: "1 2 3 4 6 7 8 9 10 11 12 13 14 15 16 17 18 19 21 23",
    2: "1 2 4 5 7 8 12 13 14 15 16 19 20 21",
    3: "1 2 3 4 5 7 8 9 10 13 14 15 16 17 18 20 22 23 26 27 29 30 32 33 34 35 36 37",
    4: "1 2 3 4 5 6 8 9 10 12 14 15 17",
    5: "1 2 4 5 6 7",
    6: "1 2 3 4 5 6 7 8 9 10 12 14 16",
    7: "1 2 3 6 7 8 9 10 11 12 13 14 18 20 21 22 24 25 26 27 28 29 30 31 32 34 35 37 39 40",
    9: "1 2 3 4 5 6 7 8 9 11 12 13 14 15 16 20 21 23 24",
    8: "1 2 3 4 5 6 7 8 9 11 12 13 14 15 16 18 19 20 22 27 28 30 31 34",
    10: "1 2 3 4 6 7 8 9 10 11 12 13 14 15 16 19 20 21 22 23 24 26 27 28 29 30 31 32 33 34 35 36 37 38 39",
    11: "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 17 18 19 20 21 22 23 31 32 33 34 39 41 45 47 48 49 50 51 52 53",
    12: "1 2 3 6 7 8 9 10 11 12 13 14 16 17 18 19 22",
    14: "1 2 3 4 5 6 7 9 10 11 13 14 22 23 24 25 26 27 31 32 33",
    15: "1 2 3 6 7 8 9 10 11 12 13 14 15 16 17 18 20 21 23 24 25 26 27 28 29 30 33 34 35",
    16: "1 2 3 4 8 9 10 11 12",
    17: "1 2 3 4 5 6 7 9 10 11 13 14 15 16 18",
}

CLAIMED: tuple[str, ...] = tuple(
    f"{section}.{row}" for section, rows in _CLAIMED.items() for row in rows.split()
)
"""In the order of the table."""

_NO_ONNX = (
    "the reference has the python backend only: no native onnxruntime backend can be had here"
)
_NO_GPU = "needs a GPU, and the reference at hand is a build without"

UNSHOWN: dict[str, str] = {
    "1.11": "2.51 has no --http-max-input-size and no limit; ours is shown by our own tests",
    "1.21": "nothing to observe: TLS over HTTP is a reverse proxy's work on both sides",
    "2.12": "2.51 does not call is_ready of a model; shown by our own tests",
    "8.27": _NO_GPU,
    "11.7": _NO_GPU,
    "11.50": _NO_ONNX,
    "11.51": _NO_ONNX,
    "12.19": "environment variables of Triton's own tests, no client sees them",
    **{f"16.{row}": _NO_ONNX for row in (1, 2, 3, 4, 8, 9, 10, 11, 12)},
}


def report(shown: Iterable[str]) -> Iterator[str]:
    """Every row of the table and what is known of it, and a count at the end.

    Args:
        shown: the rows that a scenario showed.
    """
    found, claimed = set(shown), set(CLAIMED)
    for row, name in TABLE.items():
        if row in found:
            state = "shown" if row in claimed else "shown, though not claimed"
        elif row in claimed:
            state = f"claimed, not shown: {UNSHOWN.get(row, 'NO REASON GIVEN')}"
        else:
            state = "not claimed"
        yield f"{row} {name}: {state}"
    yield (
        f"of {len(TABLE)} rows {len(found & set(TABLE))} are shown, "
        f"{len(claimed - found)} are claimed without being shown, {len(set(TABLE) - claimed - found)} are not claimed"
    )
