"""The fast reader of JSON takes what the careful one takes, with the same result, or leaves it alone."""

import json
import typing

import pytest
from hypothesis import given, strategies as st

from naiad.core.tensor import Tensor
from naiad.errors import InferenceError
from naiad.protocol.http.codec import infer_json, typed_json
from naiad.protocol.http.codec.infer_json import Decoded, Target
from tests.support.calls import calls_of

LIMIT = typed_json.SMALLEST_LIMIT
TARGET = Target("m", -1, LIMIT)


def _shown(tensor: Tensor) -> object:
    array = tensor.array
    elements = array.tolist() if array.dtype == object else array.tobytes()
    return tensor.name, tensor.datatype.name, tensor.shape, array.shape, array.dtype, elements, tensor.fault  # fmt: skip


def _meaning(decoded: Decoded) -> object:
    request = decoded.request
    parameters = [(key, type(value), value) for key, value in request.parameters.items()]
    return (
        (request.model_name, request.model_version, request.id, request.requested_outputs),
        (request.priority, request.timeout_us, type(request.correlation_id), request.correlation_id, request.flags),
        parameters,
        [_shown(each) for each in request.inputs],
        (decoded.form.binary, list(decoded.form.listed.items())),
    )  # fmt: skip


def agree(document: bytes, raw: bytes = b"") -> bool:
    """Hold both to each other; whether the fast one took it."""
    body = document + raw
    fast = typed_json.read(body, len(document), TARGET)
    if fast is None:
        return False
    careful = infer_json.decode(body, len(document), TARGET)
    assert _meaning(fast) == _meaning(careful)
    return True


def document(**members: typing.Any) -> bytes:
    """A request of one input, with other members of it."""
    return json.dumps(
        {"inputs": [{"name": "x", "datatype": "FP32", "shape": [2], "data": [1, 2.5], **members}]}
    ).encode()


def behind(size: int, **members: typing.Any) -> bytes:
    """A request of one input whose bytes stand behind the JSON, with other members of it."""
    entry = {
        "name": "x",
        "datatype": "FP32",
        "shape": [2],
        "parameters": {"binary_data_size": size},
    }
    return json.dumps({"inputs": [{**entry, **members}]}).encode()


def two(first: int, second: int) -> bytes:
    """The entries of two inputs whose bytes stand behind the JSON."""
    entries = behind(first), behind(second, name="y", datatype="INT16", shape=[3])
    return b",".join(entry.removeprefix(b'{"inputs": [').removesuffix(b"]}") for entry in entries)


@pytest.mark.parametrize(
    "taken",
    [
        document(),
        document(datatype="INT64", data=[-(2**63), 2**63 - 1]),
        document(datatype="UINT64", data=[0, 2**64 - 1]),
        document(datatype="FP64", data=[10**30, -0.0]),
        document(data=[1, 2]).replace(b"1, 2", b"-0, 1e5"),
        document(datatype="BYTES", data=["", "a b"]),
        document(shape=[1, 2, 1]),
        b' {"inputs":[] }\n',
        b'{"id":"7","id":"8",' + document()[1:],
        b'{"parameters":{"a":1,"b":2.0,"c":"d","e":true,"priority":3,"binary_data_output":true},'
        + document()[1:],
        b'{"parameters":{"a":9223372036854775807,"b":-9223372036854775808},' + document()[1:],
        b'{"parameters":{"my_triton_a":1},' + document()[1:],
        document()[:-3] + b',"data":[3,4]}]}',
    ],
)
def test_usual_requests_are_taken(taken: bytes) -> None:
    assert agree(taken)


@pytest.mark.parametrize(
    ("taken", "raw"),
    [
        (behind(8), bytes(8)),
        (behind(8, datatype="INT16"), bytes(8)),  # a fault of the tensor
        (behind(4, datatype="FP16"), bytes(4)),
        (behind(2, datatype="BOOL"), b"\1\0"),
        (behind(10, datatype="BYTES"), b"\1\0\0\0x\1\0\0\0y"),
        (behind(9, datatype="BYTES"), b"\1\0\0\0x\2\0\0\0"),
        (behind(100, datatype="BYTES", shape=[20]), b"\1\0\0\0x" * 20),
        (behind(8, shape=[2**40]), bytes(8)),
        (b'{"id":"7","parameters":{"a":1},' + behind(8)[1:], bytes(8)),
        (b'{"inputs":[' + two(8, 6) + b"]}", bytes(14)),
    ],
)
def test_usual_binary_requests_are_taken(taken: bytes, raw: bytes) -> None:
    assert agree(taken, raw)


@pytest.mark.parametrize(
    "outputs",
    [
        [],
        [{"name": "y"}],
        [{"name": "y", "parameters": {"binary_data": True}}],
        [{"name": "y", "parameters": {"binary_data": False}}, {"name": "z"}],
        [{"name": "y"}, {"name": "y", "parameters": {"binary_data": True}}],
        [{"name": "y", "parameters": {}}],
        [{"name": "y", "parameters": {"classification": 0}}],
        [{"name": "y", "parameters": {"classification": 3, "binary_data": True}}],
    ],
)
@pytest.mark.parametrize("binary", [b"", b'"parameters":{"binary_data_output":true},'])
def test_listed_outputs_are_taken(outputs: list[object], binary: bytes) -> None:
    listed = b'{"outputs":' + json.dumps(outputs).encode() + b"," + binary
    assert agree(listed + document()[1:])
    assert agree(listed + behind(8)[1:], bytes(8))


@pytest.mark.parametrize(
    ("left", "raw"),
    [
        (behind(8), bytes(7)),
        (behind(8), bytes(9)),
        (behind(-8), b""),
        (behind(8).replace(b"8", b"8.0"), bytes(8)),
        (behind(8).replace(b"8", b"true"), bytes(8)),
        (behind(8).replace(b"8", b'"8"'), bytes(8)),
        (behind(8).replace(b"8", b"18446744073709551616"), bytes(8)),
        (behind(8, data=[1, 2]), bytes(8)),
        (behind(8, shape=[2**62, 2]), bytes(8)),
        (behind(8, shape=[0]), bytes(8)),
        (behind(8, shape=[-2]), bytes(8)),
        (behind(8, shape=[1] * 33), bytes(8)),
        (behind(8, datatype="x"), bytes(8)),
        (behind(8, parameters={"binary_data_size": 8, "other": 1}), bytes(8)),
        (behind(8, parameters={}), bytes(8)),
        (document(), b"x"),
        (behind(0), b""),
        (b'{"inputs":[' + two(8, 6) + b"," + document()[12:-2] + b"]}", bytes(14)),
    ],
)
def test_other_binary_requests_are_left_to_the_careful_reader(left: bytes, raw: bytes) -> None:
    assert not agree(left, raw)


@pytest.mark.parametrize(
    "output",
    [
        {"name": "y", "parameters": {"classification": -1}},
        {"name": "y", "parameters": {"classification": 2**63}},
        {"name": "y", "parameters": {"classification": 2.0}},
        {"name": "y", "parameters": {"binary_data": 1}},
        {"name": "y", "parameters": {"shared_memory_region": "r"}},
        {"name": "y", "parameters": None},
        {"name": 1},
        {},
        7,
    ],
)
def test_other_outputs_are_left_to_the_careful_reader(output: object) -> None:
    listed = b'{"outputs":[' + json.dumps(output).encode() + b"],"
    assert not agree(listed + document()[1:])


@pytest.mark.parametrize(
    "left",
    [
        b'{"parameters":{"a":18446744073709551616},' + document()[1:],
        b'{"parameters":{"a":9223372036854775808},' + document()[1:],
        b'{"parameters":{"a":-9223372036854775809},' + document()[1:],
        b"",
        b"{}",
        b"[]",
        b"\xef\xbb\xbf" + document(),
        document(name="\u00e9"),
        document(name="\u00e9").replace(b"\\u00e9", b"\xe9"),
        document(name=None),
        document(datatype="FP16"),
        document(datatype="fp32"),
        document(shape=[2.0]),
        document(shape=[True, 2]),
        document(shape=[-1, -2]),
        document(shape=[0], data=[]),
        document(shape=[1] * 33, data=[1]),
        document(shape=[3]),
        document(shape=[2**63]),
        document(data=[True, 1]),
        document(data=[None, 1]),
        document(data=[[1, 2]]),
        document(data=["1", "2"]),
        document(datatype="INT8", data=[1, 2.0]),
        document(datatype="INT8", data=[1, 200]),
        document(datatype="BYTES", data=["a", 1]),
        document(data=[1, 2]).replace(b"1, 2", b"NaN, 1"),
        document(parameters={"binary_data_size": 8}),
        document(parameters=None),
        document(other=1),
        document() + b"x",
        b'{"id":null,' + document()[1:],
        b'{"outputs":{"name":"y"},' + document()[1:],
        b'{"parameters":null,' + document()[1:],
        b'{"parameters":{"a":[]},' + document()[1:],
        b'{"parameters":{"priority":"high"},' + document()[1:],
        b'{"parameters":{"triton_a":1},' + document()[1:],
        b"[" * 4000,
        b'{"inputs":' + b"[" * 4000,
    ],
)
def test_everything_else_is_left_to_the_careful_reader(left: bytes) -> None:
    assert not agree(left)


_NUMBERS = st.one_of(
    st.integers(-(2**70), 2**70), st.floats(), st.sampled_from([0, -0.0, 1e308, 2**64, 1e-320])
)
_VALUES = st.one_of(
    _NUMBERS, st.text(max_size=3), st.booleans(), st.none(), st.lists(_NUMBERS, max_size=2)
)
_SIZE = st.fixed_dictionaries({"binary_data_size": st.one_of(st.integers(-1, 9), _VALUES)})
_INPUT = st.fixed_dictionaries(
    {
        "name": st.one_of(st.text(max_size=3), st.none()),
        "datatype": st.sampled_from(
            ["FP32", "FP64", "INT8", "INT32", "INT64", "UINT8", "UINT64", "BOOL", "BYTES", "FP16", "x"]
        ),
        "shape": st.one_of(st.lists(st.integers(-1, 3), max_size=3), st.just([2]), st.just([1, 2])),
        "data": st.one_of(
            st.lists(_NUMBERS, min_size=2, max_size=2),
            st.lists(st.integers(-3, 300), max_size=4),
            st.lists(st.text(alphabet="ab\u00e9\\", max_size=3), min_size=2, max_size=2),
            st.lists(_VALUES, max_size=3),
        ),
    },
    optional={"parameters": st.one_of(st.none(), _SIZE, st.dictionaries(st.text(max_size=3), _VALUES, max_size=1))},
)  # fmt: skip
_BINARY_INPUT = st.fixed_dictionaries(
    {
        "name": st.text(max_size=3),
        "datatype": st.sampled_from(["FP32", "INT8", "UINT16", "BOOL", "BYTES", "FP16", "x"]),
        "shape": st.lists(st.integers(-1, 5), max_size=3),
        "parameters": _SIZE,
    }
)
_OUTPUT = st.fixed_dictionaries(
    {"name": st.one_of(st.text(max_size=3), st.none())},
    optional={"parameters": st.dictionaries(st.sampled_from(["binary_data", "classification"]), _VALUES, max_size=2)},
)  # fmt: skip
_DOCUMENT = st.fixed_dictionaries(
    {"inputs": st.lists(_INPUT, max_size=2)},
    optional={
        "id": st.one_of(st.text(max_size=4), st.integers()),
        "parameters": st.dictionaries(
            st.sampled_from(["a", "b", "priority", "timeout", "sequence_id", "sequence_start", "binary_data_output", "triton_x"]),
            _VALUES,
            max_size=3,
        ),
        "outputs": st.lists(_OUTPUT, max_size=2),
    },
)  # fmt: skip


def _agree_or_both_refuse(document: bytes, raw: bytes = b"") -> None:
    try:
        agree(document, raw)
    except InferenceError as error:  # only the careful one raises
        raise AssertionError(f"the fast reader took what is refused: {error}") from error


@given(_DOCUMENT)
def test_both_readers_agree(value: object) -> None:
    _agree_or_both_refuse(json.dumps(value).encode())
    _agree_or_both_refuse(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace"))  # fmt: skip


@given(
    st.lists(_BINARY_INPUT, min_size=1, max_size=2),
    st.binary(max_size=18),
    st.lists(_OUTPUT, max_size=2),
)
def test_both_readers_agree_on_binary_requests(inputs: object, raw: bytes, outputs: object) -> None:
    _agree_or_both_refuse(json.dumps({"inputs": inputs, "outputs": outputs}).encode(), raw)


@given(st.data())
def test_both_readers_agree_on_damaged_documents(data: st.DataObject) -> None:
    text = data.draw(
        st.sampled_from([document(), document(datatype="BYTES", data=["a", "b"]), b'{"id":"7",' + document()[1:]])
    )  # fmt: skip
    at = data.draw(st.integers(0, len(text)))
    stop = data.draw(st.integers(at, min(at + 3, len(text))))
    put = data.draw(
        st.sampled_from([b"", b" ", b"-", b"0", b"1.", b"e5", b'"', b"{", b"}", b"[", b"]", b",", b"null", b"true", b"\0", b"\xff", b"\\", b"\x7f", b"\t"])
    )  # fmt: skip
    _agree_or_both_refuse(text[:at] + put + text[stop:])


def test_what_is_remembered_of_json_is_not_changed_by_its_requests() -> None:
    text = b'{"parameters":{"a":1},"outputs":[{"name":"y"}],' + behind(4, shape=[1])[1:]
    for value in range(3):
        raw = value.to_bytes(4, "little")
        decoded = typed_json.read(text + raw, len(text), Target("m", value, LIMIT))
        assert decoded is not None
        assert decoded.request.parameters == {"a": 1}
        decoded.request.parameters["forwarded"] = "header"
        assert decoded.request.model_version == value
        assert decoded.request.inputs[0].array.tobytes() == raw
        assert agree(text, raw)
    for length in (0, 3, 5):
        assert not agree(text, bytes(length))


def test_what_is_remembered_of_json_is_bounded() -> None:
    for number in range(1_000):
        assert agree(behind(8, name=f"x{number}"), bytes(8))
    remembered = typed_json._layout.cache_info()
    assert remembered.currsize == remembered.maxsize == 128


def in_a_region(**members: typing.Any) -> bytes:
    """A request whose tensors are in regions, with other members of its own."""
    place = {"shared_memory_region": "r", "shared_memory_byte_size": 8}
    given = {"name": "x", "datatype": "FP32", "shape": [2], "parameters": place}
    wanted = {"name": "y", "parameters": {**place, "shared_memory_offset": 8}}
    return json.dumps({"inputs": [given], "outputs": [wanted], **members}).encode()


def test_a_request_in_regions_that_comes_again_is_not_read_again() -> None:
    body = in_a_region(parameters={"mine": 1})
    first = typed_json.decode(body, len(body), TARGET)
    assert _meaning(first) == _meaning(infer_json.decode(body, len(body), TARGET))
    assert first.request.in_regions
    assert calls_of(lambda: typed_json.decode(body, len(body), TARGET)) < 20
    # What is done to one of them is not done to the next.
    first.request.inputs.clear()
    first.request.requested_outputs.clear()
    first.request.parameters["forwarded"] = "x"
    again = typed_json.decode(body, len(body), TARGET)
    assert _meaning(again) == _meaning(infer_json.decode(body, len(body), TARGET))
    other = typed_json.decode(body, len(body), Target("other", 3, LIMIT)).request
    assert (other.model_name, other.model_version) == ("other", 3)


def test_requests_in_regions_that_do_not_come_again_are_read_each_time() -> None:
    body = in_a_region(id="7")
    assert typed_json.decode(body, len(body), TARGET).request.id == "7"
    mixed = json.loads(in_a_region())
    mixed["inputs"].append({"name": "z", "datatype": "FP32", "shape": [1], "data": [1]})
    body = json.dumps(mixed).encode()
    both = [typed_json.decode(body, len(body), TARGET).request.inputs[1] for _ in range(2)]
    assert both[0].array is not both[1].array
