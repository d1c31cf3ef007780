"""Cycles in graphs."""

import pytest

from naiad.core.cycles import cycle_through


@pytest.mark.parametrize(
    ("edges", "cycle"),
    [
        ({}, []),
        ({"a": "bc", "b": "d", "c": "d"}, []),
        ({"a": "a"}, ["a"]),
        ({"a": "b", "b": "a"}, ["a", "b"]),
        ({"a": "b", "b": "c", "c": "ba"}, ["a", "b", "c"]),
        ({"a": "bc", "b": "d", "c": "a", "d": "a"}, ["a", "c"]),
        ({"a": "b", "b": "c", "c": "b"}, []),
    ],
)
def test_the_shortest_cycle_through_a_node_starts_with_it(
    edges: dict[str, str], cycle: list[str]
) -> None:
    assert cycle_through("a", lambda node: edges.get(node, "")) == cycle
