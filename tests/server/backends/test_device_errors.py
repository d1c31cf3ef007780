"""Which errors a process does not survive, told by made-up exceptions of the frameworks' shapes; no framework is needed."""

import pytest
from typing_extensions import override

from naiad.backends.device_errors import (
    UNRECOVERABLE,
    DeviceError,
    in_text,
    out_of_memory,
    unrecoverable,
)
from naiad.errors import internal


class AcceleratorError(RuntimeError):
    """As torch's, which holds the number of the error."""

    def __init__(self, text: str, error_code: int) -> None:
        super().__init__(text)
        self.error_code = error_code


class CUDARuntimeError(RuntimeError):
    """As CuPy's."""

    def __init__(self, status: int) -> None:
        super().__init__("an error of CUDA")
        self.status = status


Fail = type("Fail", (Exception,), {"__module__": "onnxruntime.capi.onnxruntime_pybind11_state"})
"""As onnxruntime's, whose text alone says what happened."""

OutOfMemoryError = type("OutOfMemoryError", (RuntimeError,), {"__module__": "torch"})

ASSERT = DeviceError(710, "cudaErrorAssert", certain=True)
ORT_TEXT = "[ONNXRuntimeError] : 1 : FAIL : CUDA failure 710: device-side assert triggered ; GPU=0 ; hostname=h ; file=x.cc ; line=1"


@pytest.mark.parametrize("code", sorted(UNRECOVERABLE))
def test_the_number_in_an_exception_of_torch_or_cupy_decides(code: int) -> None:
    name = UNRECOVERABLE[code].name
    assert unrecoverable(AcceleratorError("whatever", code)) == (code, name, True)
    assert unrecoverable(CUDARuntimeError(code)) == (code, name, True)


@pytest.mark.parametrize("code", [1, 2, 701, 703, 711, 712, 713, 720, 801, 900])
def test_other_numbers_are_errors_of_one_call_whatever_the_text_says(code: int) -> None:
    assert unrecoverable(AcceleratorError(ORT_TEXT, code)) is None
    assert in_text(f"CUDA failure {code}: something") is None


def test_a_number_in_an_exception_of_another_class_does_not_count() -> None:
    class HttpError(Exception):
        error_code = 710

    assert unrecoverable(HttpError("700")) is None


def test_text_is_certain_in_an_exception_of_a_framework_and_a_suspicion_in_any_other() -> None:
    assert unrecoverable(Fail(ORT_TEXT)) == ASSERT
    assert unrecoverable(RuntimeError(ORT_TEXT)) == ASSERT._replace(certain=False)
    assert unrecoverable(internal(ORT_TEXT)) == ASSERT._replace(certain=False)
    assert in_text(ORT_TEXT) == ASSERT._replace(certain=False)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("CUDA error: an illegal memory access was encountered\nCUDA kernel errors might be", 700),
        ("CUDA driver error: unspecified launch failure", 719),
        ("cudaErrorMisalignedAddress: misaligned address", 716),
        ("INTERNAL: CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access was encountered", 700),
        ("CUDA_ERROR_LAUNCH_FAILED", 719),
        ("CUDA failure 999: unknown error ; GPU=0", 999),
        ("cuda failure: 702", 702),
        ("CUDA error: out of memory", None),
        ("CUDA failure 2: out of memory", None),
        ("an illegal memory access was encountered", None),
        ("CUDA failure 7100", None),
        ("cudaErrorAssertion", None),
        ("", None),
    ],
)
def test_what_frameworks_write(text: str, code: int | None) -> None:
    found = in_text(text)
    assert (found and found.code) == code


def test_only_the_beginning_of_a_text_is_looked_at() -> None:
    assert in_text(" " * 8_000 + "CUDA failure 710") is not None
    assert in_text(" " * 9_000 + "CUDA failure 710") is None


def test_the_cause_of_an_error_counts_and_what_is_certain_comes_first() -> None:
    failed = internal(f"Failed to process the request(s): {ORT_TEXT}")
    failed.__cause__ = AcceleratorError("CUDA error: device-side assert triggered", 710)
    assert unrecoverable(failed) == ASSERT


def test_an_error_that_lost_its_cause_keeps_what_it_says_of_the_device() -> None:
    failed = internal("x")
    failed.lost_device = ASSERT
    assert unrecoverable(failed.bare()) == ASSERT


def test_an_exception_that_was_being_handled_counts_unless_it_was_suppressed() -> None:
    handled = ValueError("another")
    handled.__context__ = AcceleratorError("", 710)
    assert unrecoverable(handled) == ASSERT
    handled.__suppress_context__ = True
    assert unrecoverable(handled) is None


def test_members_of_groups_count() -> None:
    group = ExceptionGroup("tasks", [ValueError("x"), AcceleratorError("", 700)])
    assert unrecoverable(group) == (700, "cudaErrorIllegalAddress", True)


def test_a_chain_that_leads_to_itself_ends() -> None:
    one, other = ValueError("one"), ValueError("other")
    one.__cause__, other.__cause__ = other, one
    assert unrecoverable(one) is None


def test_an_exception_whose_text_cannot_be_made_says_nothing() -> None:
    class SilentError(Exception):
        @override
        def __str__(self) -> str:
            raise ValueError("no text")

    assert unrecoverable(SilentError()) is None
    assert not out_of_memory(SilentError())


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"), True),
        (AcceleratorError("CUDA error: out of memory", 2), True),
        (Fail("CUDA failure 2: out of memory ; GPU=0"), True),
        (internal("CUDA out of memory. Tried to allocate"), True),
        (AcceleratorError("CUDA out of memory", 710), False),
        (MemoryError("of the host"), False),
        (Fail("CUDA failure 21: x"), False),
    ],
)
def test_lack_of_memory_is_not_an_error_that_a_process_does_not_survive(
    error: Exception, expected: object
) -> None:
    assert out_of_memory(error) is expected


def test_an_error_says_its_number_and_its_name() -> None:
    assert str(ASSERT) == "CUDA error 710 (cudaErrorAssert)"
