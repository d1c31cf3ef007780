"""Tables of test cases by name."""

import typing

_Case = typing.TypeVar("_Case")


def joined(*tables: dict[str, _Case]) -> dict[str, _Case]:
    """One table of several; no name is in two of them."""
    cases: dict[str, _Case] = {}
    for table in tables:
        twice = cases.keys() & table
        assert not twice, f"two cases of one name: {sorted(twice)}"
        cases |= table
    return cases
