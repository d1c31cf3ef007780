"""The error classes of the API server's responses."""

import pytest

from naiad_operator.cluster import errors

TYPED = "failed to create typed patch object (a/b; apps/v1, Kind=Deployment): "


@pytest.mark.parametrize(
    ("response", "message"),
    [
        (".spec.nodeSelctor: field not declared in schema", ".spec.nodeSelctor: field not declared in schema"),
        (".spec.hostNetwork: expected boolean, got &{yes}", ".spec.hostNetwork: expected boolean, got yes"),
        (".key: expected string, got &value.valueUnstructured{Value:3}", ".key: expected string, got 3"),
        ("errors:\n  .spec.a: field not declared in schema\n  .spec.b: field not declared in schema\n", ".spec.a: field not declared in schema; .spec.b: field not declared in schema"),
        ('.x: duplicate entries for key [name="a"]', '.x: duplicate entries for key [name="a"]'),
    ],
)  # fmt: skip
def test_an_unknown_field_in_an_apply_is_an_invalid_object_despite_the_code_500(
    response: str, message: str
) -> None:
    error = errors.from_response("apply it", code=500, status={"message": TYPED + response})
    assert isinstance(error, errors.Invalid)
    assert error.message == message


def test_a_message_is_one_line() -> None:
    error = errors.from_response("watch", code=404, status={"message": "404 page not found\n"})
    assert error.message == "404 page not found"


def test_any_other_500_is_a_server_error() -> None:
    for message in ("", "etcdserver: request timed out", f"x {TYPED}y"):
        error = errors.from_response("apply it", code=500, status={"message": message})
        assert isinstance(error, errors.ServerTrouble)
        assert error.transient
