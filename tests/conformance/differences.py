"""Where Naiad answers otherwise than tritonserver 2.51 on purpose, leaf by leaf, each with its reason.

Two kinds: the table describes 2.73, and where 2.51 is older the table wins; and what `design.md` decided. A difference
that stops showing fails its scenario, so this list cannot go stale.
"""

from tests.conformance.verdict import Difference

DIFFERENCES: tuple[Difference, ...] = ()
