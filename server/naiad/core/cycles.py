"""Finds cycles in graphs of things that wait for each other. Pure."""

import collections.abc
import typing

Node = typing.TypeVar("Node", bound=collections.abc.Hashable)


def cycle_through(
    start: Node, next_of: collections.abc.Callable[[Node], collections.abc.Iterable[Node]]
) -> list[Node]:
    """The shortest cycle through a node, whose edges `next_of` gives; empty if there is none.

    The nodes in order, `start` first; the last one has an edge back to it.
    """
    came_from: dict[Node, Node] = {}
    queue = [start]
    for node in queue:
        for following in next_of(node):
            if following == start:
                path = [node]
                while path[-1] != start:
                    path.append(came_from[path[-1]])
                return path[::-1]
            if following not in came_from:
                came_from[following] = node
                queue.append(following)
    return []
