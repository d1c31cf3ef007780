"""How the interpreter is set for serving: the garbage collector and the switch interval.

Both are process-wide, so they stand here, where the process is made, and nowhere else.
"""

import gc
import sys

_SWITCH_INTERVAL_SECONDS = 0.001
"""How long one thread may hold the interpreter while another wants it. At Python's 5 ms a model computing in Python holds up the
event loop that long each time; at 1 ms the loop's p99 beside such a model was a tenth, for a few percent of the model's speed."""

_YOUNG_OBJECTS = 50_000
"""Objects made between two looks at the youngest generation. A request makes some thirty, nearly all freed by reference counts at
once; Python's 700 would mean a look every other request."""


def settle() -> None:
    """Call once the models are loaded: what lives now lives long, so the collector need not look at it again."""
    sys.setswitchinterval(_SWITCH_INTERVAL_SECONDS)
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG_OBJECTS, 20, 20)
