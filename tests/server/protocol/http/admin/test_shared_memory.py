import pytest

from naiad.errors import ErrorCode, InferenceError
from naiad.protocol.http.admin import shared_memory


def test_no_region_is_registered() -> None:
    assert shared_memory.status("system", "") == []


@pytest.mark.parametrize("kind", ["system", "cuda"])
def test_no_single_region_is_known(kind: str) -> None:
    with pytest.raises(InferenceError) as caught:
        shared_memory.status(kind, "r")
    assert caught.value.code is ErrorCode.NOT_FOUND
    assert f"Unable to find {kind} shared memory region: 'r'" in caught.value.message


def test_registering_is_switched_off() -> None:
    with pytest.raises(InferenceError) as caught:
        shared_memory.change()
    assert caught.value.code is ErrorCode.UNSUPPORTED
    assert (
        "Client shared memory is disabled: this version of the server does not support it yet"
        in caught.value.message
    )
