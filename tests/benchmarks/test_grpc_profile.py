"""The profile of a gRPC call runs with the server as it is now; no figure is looked at."""

import pytest

from benchmarks.micro import grpc_profile


@pytest.mark.parametrize("changing", [False, True])
def test_the_profile_has_a_row_for_each_part(changing: bool) -> None:  # noqa: FBT001 - a parameter of pytest
    table = grpc_profile.table(grpc_profile.measure(rounds=2, changing=changing))
    assert "| HTTP/2 |" in table
    assert "| gRPC codec |" in table
    assert "| **together** |" in table
