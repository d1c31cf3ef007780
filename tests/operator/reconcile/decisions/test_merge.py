"""The merge patch from one status to another."""

from typing import Any

from hypothesis import given, strategies as st

from naiad_operator.reconcile.decisions.merge import patch

values = st.recursive(
    st.one_of(st.integers(), st.text(max_size=3), st.lists(st.integers(), max_size=2)),
    lambda below: st.dictionaries(st.text(max_size=2), below, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(st.text(max_size=2), values, max_size=4)


def applied(target: Any, change: Any) -> Any:
    """RFC 7386, as an API server applies it."""
    if not isinstance(change, dict):
        return change
    merged = dict(target) if isinstance(target, dict) else {}
    for key, value in change.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = applied(merged.get(key), value)
    return merged


@given(objects, objects)
def test_the_patch_changes_one_status_into_the_other(
    before: dict[str, Any], after: dict[str, Any]
) -> None:
    assert applied(before, patch(before, after)) == after


@given(objects)
def test_equal_statuses_have_no_patch(status: dict[str, Any]) -> None:
    assert patch(status, status) == {}


def test_none_is_an_absent_field() -> None:
    assert patch({"url": "x"}, {"url": None}) == {"url": None}
    assert patch({}, {"url": None}) == {}
