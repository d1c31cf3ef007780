"""The dependency graph: it never holds a cycle, and its order follows the dependencies."""

import collections

import pytest
from hypothesis import given, strategies as st

from naiad.repository.dependencies import DependencyCycleError, DependencyGraph

MODELS = "abcdef"
EDGES = st.lists(st.tuples(st.sampled_from(MODELS), st.sampled_from(MODELS)), max_size=20)


def reachable(edges: collections.abc.Iterable[tuple[str, str]], start: str) -> set[str]:
    """The models that a model depends on, itself or through others; as simple as can be."""
    known = list(edges)
    names: set[str] = set()
    for _ in MODELS:
        names |= {needed for model, needed in known if model == start or model in names}
    return names


def built(edges: collections.abc.Iterable[tuple[str, str]]) -> DependencyGraph:
    """A graph with those of the edges that close no cycle."""
    graph = DependencyGraph()
    for model, needed in edges:
        try:
            graph.add(model, needed)
        except DependencyCycleError:
            continue
    return graph


def edges_of(graph: DependencyGraph) -> set[tuple[str, str]]:
    return {(model, needed) for model in MODELS for needed in graph.needs(model)}


def test_a_cycle_is_refused_and_shown() -> None:
    graph = built([("a", "b"), ("b", "c"), ("b", "d")])
    with pytest.raises(DependencyCycleError) as caught:
        graph.add("c", "a")
    assert caught.value.cycle == ("c", "a", "b")
    assert str(caught.value) == "'c' depends on 'a' depends on 'b' depends on 'c'"
    with pytest.raises(DependencyCycleError, match="'e' depends on 'e'"):
        graph.add("e", "e")


@given(EDGES)
def test_exactly_the_dependencies_that_close_a_cycle_are_refused(
    edges: list[tuple[str, str]],
) -> None:
    graph = DependencyGraph()
    for model, needed in edges:
        before = edges_of(graph)
        closes = model == needed or model in reachable(before, needed)
        if not closes:
            graph.add(model, needed)
            assert edges_of(graph) == before | {(model, needed)}
            continue
        with pytest.raises(DependencyCycleError) as caught:
            graph.add(model, needed)
        assert edges_of(graph) == before
        cycle = caught.value.cycle
        assert cycle[0] == model
        assert set(zip(cycle, (*cycle[1:], model), strict=True)) <= before | {(model, needed)}


@given(EDGES, st.sets(st.sampled_from(MODELS)))
def test_an_unload_order_has_every_model_once_and_after_all_that_need_it(
    edges: list[tuple[str, str]], wanted: set[str]
) -> None:
    graph = built(edges)
    groups = graph.unload_order(wanted)
    assert sorted(model for group in groups for model in group) == sorted(wanted)
    assert all(groups)
    # Also through models that are not wanted.
    needs = {model: reachable(edges_of(graph), model) & wanted for model in wanted}
    loaded = set(wanted)
    for group in groups:
        unneeded = {m for m in loaded if not any(m in needs[other] for other in loaded)}
        assert group <= unneeded
        assert wanted != set(MODELS) or group == unneeded
        loaded -= group
    for group in reversed(groups):
        assert all(needs[model] <= loaded for model in group)
        loaded |= group


@given(st.sets(st.sampled_from(MODELS)))
def test_models_without_dependencies_are_unloaded_at_the_same_time(wanted: set[str]) -> None:
    assert DependencyGraph().unload_order(wanted) == ([wanted] if wanted else [])


def test_a_dependency_stays_until_it_is_removed_as_often_as_it_was_added() -> None:
    graph = built([("a", "b"), ("a", "b"), ("a", "c")])
    graph.remove("a", "b")
    assert set(graph.needs("a")) == {"b", "c"}
    graph.remove("a", "b")
    assert set(graph.needs("a")) == {"c"}
    graph.remove("a", "c")
    assert edges_of(graph) == set()


def test_a_model_that_is_dropped_needs_nothing_and_is_still_needed() -> None:
    graph = built([("a", "b"), ("b", "c")])
    graph.drop("b")
    graph.drop("never added")
    assert edges_of(graph) == {("a", "b")}
