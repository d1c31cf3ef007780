"""Names that no forwarded header may have (row 1.18)."""

import pytest

from naiad.protocol.reserved import is_reserved


@pytest.mark.parametrize("name", ["timeout", "Sequence_ID", "triton_x", "Triton_Enable"])
def test_the_protocols_own_names_are_reserved_in_any_case(name: str) -> None:
    assert is_reserved(name)


@pytest.mark.parametrize("name", ["x-timeout", "timeout_us", "x-triton_y", ""])
def test_names_that_only_look_alike_are_free(name: str) -> None:
    assert not is_reserved(name)
