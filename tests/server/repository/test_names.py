"""Words that name no model (row 7.14)."""

import pytest

from naiad.errors import ErrorCode, InferenceError
from naiad.repository.names import check_name


@pytest.mark.parametrize("name", ["m", "a.b-c_d", "..a", "ü", "a b"])
def test_a_folders_name_is_fine(name: str) -> None:
    check_name(name)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("", "Model name cannot be empty"),
        (" \t", "Model name cannot be empty"),
        ("..", "must not contain path traversal characters"),
        (" .. ", "must not contain path traversal characters"),
        (".", "must not contain path traversal characters"),
        ("a/b", "must not contain path traversal characters"),
        ("/etc", "must not contain path traversal characters"),
        ("a\0b", "must not contain path traversal characters"),
    ],
)
def test_others_are_refused(name: str, said: str) -> None:
    with pytest.raises(InferenceError) as caught:
        check_name(name)
    assert caught.value.code is ErrorCode.INVALID_ARG
    assert said in caught.value.message
