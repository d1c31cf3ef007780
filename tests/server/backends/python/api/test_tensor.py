import gc
import sys
import types
import weakref
from typing import Any

import numpy as np
import pytest

from naiad.backends.python.api import datatypes, triton_python_backend_utils as pb_utils
from naiad.backends.python.api.errors import TritonModelException
from naiad.backends.python.api.tensor import Tensor, parts_of, wrap
from naiad.tensors import dlpack


def test_a_tensor_tells_what_it_is() -> None:
    array = np.zeros((2, 3), np.float16)
    tensor = Tensor("T", array)
    assert (tensor.name(), tensor.triton_dtype(), tensor.shape()) == ("T", 10, [2, 3])
    assert tensor.as_numpy() is array
    assert tensor.is_cpu()
    assert tensor.__dlpack_device__() == (1, 0)


def test_an_empty_name_is_refused() -> None:
    with pytest.raises(TritonModelException, match="Tensor name cannot be an empty string"):
        Tensor("", np.zeros(1))
    with pytest.raises(TritonModelException, match="Tensor name cannot be an empty string"):
        Tensor.from_dlpack("", np.zeros(1))


@pytest.mark.parametrize(
    ("value", "error", "fragment"),
    [
        ([1, 2], TypeError, "'T' needs a numpy array, not a list; write np.asarray"),
        (np.zeros(1, np.complex64), TritonModelException, "NumPy dtype is not supported"),
        (np.array(["text"]), TritonModelException, r"array.astype\(object\)"),
        (np.zeros(1, ">f4"), TritonModelException, "NumPy dtype is not supported"),
    ],
)
def test_a_datatype_that_triton_lacks_is_refused_with_what_to_do(
    value: Any, error: type[Exception], fragment: str
) -> None:
    with pytest.raises(error, match=fragment):
        Tensor("T", value)


def test_arguments_of_another_type_differ_from_an_empty_name() -> None:
    with pytest.raises(TypeError, match="the name of a Tensor is a str, not NoneType"):
        Tensor(None, np.zeros(1))  # type: ignore[arg-type]  # what a model may do
    with pytest.raises(TypeError, match="the name of a Tensor is a str, not int"):
        Tensor.from_dlpack(3, np.zeros(1))  # type: ignore[arg-type]  # as above
    with pytest.raises(TypeError, match="needs a numpy array, not a NoneType"):
        Tensor("", None)  # type: ignore[arg-type]  # as above
    with pytest.raises(TypeError, match="needs a numpy array, not a float32"):
        Tensor("T", np.float32(1))  # type: ignore[arg-type]  # as above
    assert Tensor(b"T", np.zeros(1)).name() == "T"  # type: ignore[arg-type]  # as above


@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
def test_matrices_and_masked_arrays_are_arrays() -> None:
    for array in (np.matrix([[1.0, 2.0]]), np.ma.masked_array([[1.0, 2.0]], mask=[[False, False]])):
        held = Tensor("T", array).as_numpy()
        assert type(held) is np.ndarray
        assert held.tolist() == [[1.0, 2.0]]


def test_text_is_what_it_was_when_the_tensor_was_made() -> None:
    buffer = np.array([b"one"], object)
    tensor = Tensor("T", buffer)
    buffer[0] = b"two"
    assert tensor.as_numpy().tolist() == [b"one"]


def test_an_array_in_another_order_is_copied_into_c_order() -> None:
    array = np.arange(6).reshape(2, 3).T
    held = Tensor("T", array).as_numpy()
    assert held.flags.c_contiguous
    assert held.tolist() == array.tolist()


def test_a_scalar_stays_a_scalar() -> None:
    assert Tensor("T", np.array(3.0)).shape() == []


def test_arrays_of_fixed_width_bytes_are_bytes_tensors() -> None:
    assert Tensor("T", np.array([b"ab"])).triton_dtype() == datatypes.BYTES


def test_memory_that_is_not_its_own_is_copied_once_when_it_is_asked_for() -> None:
    view = np.frombuffer(b"\0\0\0\0", np.float32)
    tensor = wrap("T", view, 11)
    assert parts_of(tensor)[1] is view
    assert tensor.as_numpy().flags.writeable
    assert tensor.as_numpy() is tensor.as_numpy()


def test_bf16_has_no_numpy_form() -> None:
    tensor = wrap("T", np.zeros(2, np.uint16), datatypes.BF16)
    assert tensor.triton_dtype() == 14
    with pytest.raises(TritonModelException, match="Tensor dtype is BF16 and cannot be converted"):
        tensor.as_numpy()


NUMBERS = [number for _, number in sorted(datatypes.CODES.items(), key=str) if number != 13]


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (0, 4)])
def test_dlpack_carries_every_datatype_without_a_copy(number: int, shape: tuple[int, ...]) -> None:
    dtype = datatypes.triton_to_numpy_type(number)
    array = np.ones(shape, dtype)
    tensor = Tensor.from_dlpack("B", Tensor("A", array).to_dlpack())
    assert (tensor.name(), tensor.triton_dtype(), tensor.shape()) == ("B", number, list(shape))
    assert tensor.as_numpy().tolist() == array.tolist()
    assert array.size == 0 or tensor.as_numpy().ctypes.data == array.ctypes.data


def test_bf16_goes_round_by_dlpack() -> None:
    bits = np.array([[0x3F80, 0xC000]], np.uint16)
    tensor = Tensor.from_dlpack("B", wrap("A", bits, datatypes.BF16))
    assert tensor.triton_dtype() == datatypes.BF16
    assert parts_of(tensor)[1].tolist() == bits.tolist()


def test_numpy_takes_a_tensor_by_dlpack() -> None:
    array = np.arange(6, dtype=np.int32).reshape(2, 3)
    assert np.from_dlpack(Tensor("A", array)).tolist() == array.tolist()


def test_memory_is_released_with_its_last_view() -> None:
    array = np.ones(4)
    gone = weakref.ref(array)
    tensor = Tensor.from_dlpack("B", Tensor("A", array).to_dlpack())
    view = tensor.as_numpy()[1:]
    del array, tensor
    gc.collect()
    assert gone() is not None
    assert view.tolist() == [1, 1, 1]
    del view
    gc.collect()
    assert gone() is None
    assert not dlpack._lent


def test_a_capsule_that_is_not_consumed_releases_its_memory() -> None:
    array = np.ones(4)
    gone = weakref.ref(array)
    capsule = Tensor("A", array).to_dlpack()
    del array, capsule
    gc.collect()
    assert gone() is None
    assert not dlpack._lent


def test_a_capsule_is_taken_once() -> None:
    capsule = Tensor("A", np.ones(1)).to_dlpack()
    Tensor.from_dlpack("B", capsule)
    with pytest.raises(TritonModelException, match="a capsule can be taken once"):
        Tensor.from_dlpack("B", capsule)


def test_read_only_memory_is_not_handed_out() -> None:
    view = np.frombuffer(b"\0\0\0\0", np.float32)
    tensor = Tensor.from_dlpack("B", wrap("A", view, 11).to_dlpack())
    assert tensor.as_numpy().ctypes.data != view.ctypes.data


class _Elsewhere:
    """A tensor on a device."""

    def __init__(self, device: int) -> None:
        self._device = device

    def __dlpack_device__(self) -> tuple[int, int]:
        return (self._device, 0)

    def __dlpack__(self) -> Any:
        raise AssertionError("asked for, though it is not on the CPU")


@pytest.mark.parametrize(
    ("source", "fragment"),
    [
        (
            np.arange(6).reshape(2, 3).T,
            r"^DLPack tensor is not contiguous\. Only contiguous DLPack tensors that are stored in C-Order are supported\.$",
        ),
        (np.zeros(1, np.complex64), "is not a datatype of Triton"),
        ("text", "Provided tensor is not supported.*got a str"),
        (_Elsewhere(2), "memory allocated on GPU device"),
        (_Elsewhere(8), "DLDevice type 8 is not support by Python backend"),
    ],
)
def test_what_dlpack_cannot_bring_is_refused(source: Any, fragment: str) -> None:
    with pytest.raises(TritonModelException, match=fragment):
        Tensor.from_dlpack("T", source)


def test_an_empty_dlpack_tensor_is_contiguous_whatever_its_strides() -> None:
    # As torch writes them; numpy writes none.
    dlpack._require_contiguous(types.SimpleNamespace(ndim=2, shape=[3, 0], strides=[1, 1]))


def test_a_capsule_counts_as_a_reference_to_its_tensor() -> None:
    tensor = Tensor("T", np.ones(1))
    before = sys.getrefcount(tensor)
    capsule = tensor.to_dlpack()
    assert sys.getrefcount(tensor) == before + 1
    del capsule
    assert sys.getrefcount(tensor) == before


def test_text_has_no_dlpack() -> None:
    with pytest.raises(
        TritonModelException, match=r"^DLPack does not have support for string tensors\.$"
    ):
        Tensor("T", np.array([b"a"], object)).to_dlpack()


def test_types_are_named_in_both_directions() -> None:
    for dtype, number in datatypes.CODES.items():
        assert pb_utils.triton_to_numpy_type(number) is dtype.type
        assert pb_utils.numpy_to_triton_type(dtype.type) == number
    assert pb_utils.numpy_to_triton_type(np.bytes_) == 13
    assert pb_utils.triton_to_numpy_type(14) is None
    assert pb_utils.triton_string_to_numpy("TYPE_FP32") is np.float32
    assert pb_utils.triton_string_to_numpy("TYPE_STRING") is np.object_
    assert pb_utils.triton_string_to_numpy("TYPE_BOOL") is bool
    assert pb_utils.TRITON_STRING_TO_NUMPY["TYPE_FP32"] is np.float32
    with pytest.raises(KeyError):
        pb_utils.triton_string_to_numpy("TYPE_BF16")


def test_bytes_tensors_are_lengths_and_contents() -> None:
    array = np.array([[b"ab", b""], ["é", 7]], object)
    data = pb_utils.serialize_byte_tensor(array)
    assert data == b"\2\0\0\0ab" + b"\0\0\0\0" + b"\2\0\0\0\xc3\xa9" + b"\1\0\0\0" + b"7"
    assert pb_utils.deserialize_bytes_tensor(data).tolist() == [b"ab", b"", b"\xc3\xa9", b"7"]
    assert pb_utils.serialize_byte_tensor(np.array([], object)) == ()
    assert pb_utils.serialize_byte_tensor(np.zeros(1)) is None
    with pytest.raises(ValueError, match="element 0 says that it has 9 bytes, and 1 are left"):
        pb_utils.deserialize_bytes_tensor(b"\x09\0\0\0a")
