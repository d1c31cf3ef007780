"""Reading config files as people write them: what is said of each, and what is read all the same."""

import os
import pathlib

import pytest

from naiad.config.pbtxt import parser as pbtxt
from naiad.config.problem import Position
from naiad.config.report import render

_DATA = pathlib.Path(__file__).parents[3] / "data" / "server" / "pbtxt"
_HERE = pathlib.Path("config.pbtxt")


def _messages(text: str) -> list[str]:
    return [problem.message for problem in pbtxt.parse(text, path=_HERE).problems]


def _help(text: str) -> list[str]:
    return [problem.suggestion for problem in pbtxt.parse(text, path=_HERE).problems]


@pytest.mark.parametrize("path", sorted(_DATA.glob("*.pbtxt")), ids=lambda path: str(path.stem))
def test_what_is_wrong_with_each_file_is_reported(path: pathlib.Path) -> None:
    text = path.read_text("utf-8")
    document = pbtxt.parse(text, path=pathlib.Path(path.name))
    shown = render(document.problems, colour=False)
    expected = path.with_suffix(".txt")
    if os.environ.get("UPDATE_EXPECTED"):
        expected.write_text(shown, "utf-8")

    assert shown == expected.read_text("utf-8")


def test_what_was_surely_meant_is_read_although_it_is_wrong() -> None:
    document = pbtxt.parse(
        'max_batchsize: "8" inputs [ { nam: IN data_type: float32 dims: [ 3.0 5 ] } ]', path=_HERE
    )

    assert len(document.problems) == 8
    assert document.message.max_batch_size == 8
    assert document.message.input[0].name == "IN"
    assert document.message.input[0].data_type == 11
    assert list(document.message.input[0].dims) == [3, 5]


def test_the_right_name_wins_over_a_misspelled_one_in_either_order() -> None:
    for text in ("max_batchsize: 3\nmax_batch_size: 4", "max_batch_size: 4\nmax_batchsize: 3"):
        document = pbtxt.parse(text, path=_HERE)

        assert document.message.max_batch_size == 4
        assert len(document.problems) == 1


def test_every_value_has_its_place() -> None:
    document = pbtxt.parse(
        """\
input [
  { name: "A" dims: [ 1, -1 ] },
  { name: "B" dims: 7 dims: 8 }
]
dynamic_batching { priority_queue_policy { key: 2 value { max_queue_size: 5 } } }
parameters { key: "k" value { string_value: "v" } }
metric_tags { value: "t" key: "m" }
""",
        path=_HERE,
    )

    assert document.problems == ()
    assert document.positions == {
        ("input",): Position(1, 1, 5),
        ("input", 0): Position(2, 3, 1),
        ("input", 0, "name"): Position(2, 11, 3),
        ("input", 0, "dims"): Position(2, 21, 1),
        ("input", 0, "dims", 0): Position(2, 23, 1),
        ("input", 0, "dims", 1): Position(2, 26, 2),
        ("input", 1): Position(3, 3, 1),
        ("input", 1, "name"): Position(3, 11, 3),
        ("input", 1, "dims"): Position(3, 21, 1),
        ("input", 1, "dims", 0): Position(3, 21, 1),
        ("input", 1, "dims", 1): Position(3, 29, 1),
        ("dynamic_batching",): Position(5, 1, 16),
        ("dynamic_batching", "priority_queue_policy"): Position(5, 20, 21),
        ("dynamic_batching", "priority_queue_policy", 2): Position(5, 49, 1),
        ("dynamic_batching", "priority_queue_policy", 2, "max_queue_size"): Position(5, 75, 1),
        ("parameters",): Position(6, 1, 10),
        ("parameters", "k"): Position(6, 19, 3),
        ("parameters", "k", "string_value"): Position(6, 45, 3),
        ("metric_tags",): Position(7, 1, 11),
        ("metric_tags", "m"): Position(7, 22, 3),
    }


def test_a_block_in_braces_is_placed_at_its_name() -> None:
    document = pbtxt.parse("output { name: 'a' }\noutput { name: 'b' }", path=_HERE)

    assert document.positions["output",] == Position(1, 1, 6)
    assert document.positions["output", 0] == Position(1, 1, 6)
    assert document.positions["output", 1] == Position(2, 1, 6)


def test_a_placeholder_inside_a_text_is_left_to_the_model() -> None:
    assert _messages('parameters { key: "a" value { string_value: "${x}" } }') == []


@pytest.mark.parametrize(
    "text",
    [
        'backend: "${backend}"',
        'name: "model_{{ size }}"',
        'input { name: "${input_name}" }',
        'metric_tags { key: "team" value: "${team}" }',
    ],
)
def test_a_placeholder_in_a_text_of_the_config_itself_was_never_filled_in(text: str) -> None:
    (message,) = _messages(text)

    assert message.endswith("was never filled in: this file is a template")


def test_what_merely_looks_like_a_placeholder_is_a_text() -> None:
    assert _messages('default_model_filename: "$a" metric_tags { key: "a" value: "@b@ <c>" }') == []


@pytest.mark.parametrize("size", ["None", "N", "?", "-1-1"])
def test_the_error_of_a_size_that_varies_says_how_to_write_it(size: str) -> None:
    assert _help(f"input {{ dims: [ {size}, 4 ] }}") == [
        "write a number, or -1 for a size that varies"
    ]


def test_a_name_that_is_written_as_a_field_of_a_map_is_shown_as_its_entry() -> None:
    assert _help('parameters { intra_op_thread_count: "4" }') == [
        'write parameters { key: "intra_op_thread_count" value: { string_value: "…" } }: its entries have a key and a value'
    ]
    assert _help('metric_tags { team: "a" }') == [
        'write metric_tags { key: "team" value: "…" }: its entries have a key and a value'
    ]


def test_a_field_of_another_block_is_sent_there() -> None:
    assert _help("max_queue_delay_microseconds: 1") == [
        "max_queue_delay_microseconds belongs in dynamic_batching { max_queue_delay_microseconds: … }"
    ]
    assert _help("dynamic_batching { max_batch_size: 1 }") == [
        "max_batch_size belongs at the top level of the file, outside dynamic_batching"
    ]


def test_of_a_key_that_appears_twice_the_last_counts_as_in_protobuf_and_a_warning_says_so() -> None:
    text = (
        'parameters { key: "a" value { string_value: "1" } }\n'
        'parameters { key: "a" value { string_value: "2" } }\n'
        'metric_tags { key: "a" value: "1" } metric_tags { key: "a" value: "2" }'
    )
    document = pbtxt.parse(text, path=_HERE)

    assert document.problems == ()
    assert document.message.parameters["a"].string_value == "2"
    assert document.message.metric_tags["a"] == "2"
    assert document.positions[("parameters", "a")].line == 2
    assert document.warnings == (
        'line 2: the key "a" of "parameters" appears twice: the last one counts, as in protobuf',
        'line 3: the key "a" of "metric_tags" appears twice: the last one counts, as in protobuf',
    )


def test_a_sign_may_stand_apart_from_its_number_as_triton_allows() -> None:
    document = pbtxt.parse("input { dims: - 1 } max_batch_size: -\n0x8", path=_HERE)

    assert document.problems == ()
    assert list(document.message.input[0].dims) == [-1]
    assert document.message.max_batch_size == -8


@pytest.mark.parametrize("number", ["99", "-9223372036854775808", "4294967296", "0b9", "1" * 5000])
def test_a_number_that_no_value_of_an_enum_has_is_reported(number: str) -> None:
    (message,) = _messages(f"input {{ data_type: {number} }}")

    assert message.startswith("data_type has no value with the number")


def test_after_a_hundred_problems_it_stops_and_says_so() -> None:
    problems = pbtxt.parse("x: 1\n" * 5000, path=_HERE).problems

    assert len(problems) == 101
    assert "the rest of the file was not read" in problems[-1].message


@pytest.mark.parametrize("bracket", ["{", "[", "<", "input {", "input [ {", "a {", "}", "]"])
def test_brackets_without_end_cost_no_stack(bracket: str) -> None:
    assert pbtxt.parse(bracket * 10_000, path=_HERE).problems


def test_a_word_of_a_megabyte_makes_no_message_of_a_megabyte() -> None:
    document = pbtxt.parse("a" * (1 << 20), path=_HERE)

    assert len(render(document.problems, colour=False)) < 2000


def test_a_missing_file_is_an_empty_document(tmp_path: pathlib.Path) -> None:
    document = pbtxt.read(tmp_path / "none" / "config.pbtxt")

    assert document.problems == ()
    assert document.text == ""
    assert not document.message.ListFields()


def _only(path: pathlib.Path) -> tuple[str, Position | None]:
    (problem,) = pbtxt.read(path).problems
    return problem.message, problem.position


def test_a_folder_in_its_place_is_named(tmp_path: pathlib.Path) -> None:
    assert _only(tmp_path) == ("this is a folder", None)


def test_a_pipe_in_its_place_is_not_waited_for(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "config.pbtxt"
    os.mkfifo(path)

    assert _only(path) == ("this is a named pipe (FIFO)", None)


def test_a_file_that_is_too_large_is_not_read(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "config.pbtxt"
    path.write_bytes(b" " * (pbtxt.LARGEST_FILE + 1))

    assert "at most 1048576" in _only(path)[0]


def test_the_byte_that_is_not_utf_8_is_shown_and_the_rest_is_read(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "config.pbtxt"
    path.write_bytes(b'max_batch_size: 4\nname: "caf\xe9"\nplatfrom: "x"\n')

    document = pbtxt.read(path)

    assert [problem.message for problem in document.problems] == [
        "the byte 0xe9 here is not valid UTF-8",
        'unknown field "platfrom" at the top level of the file',
    ]
    assert document.problems[0].position == Position(2, 11)
    assert document.message.max_batch_size == 4


def test_a_byte_order_mark_is_reported_and_the_rest_is_read(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "config.pbtxt"
    path.write_bytes(b'\xef\xbb\xbfname: "m"\n')

    document = pbtxt.read(path)

    assert [problem.position for problem in document.problems] == [Position(1, 1)]
    assert "byte order mark" in document.problems[0].message
    assert document.message.name == "m"


def test_utf_16_is_named(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "config.pbtxt"
    path.write_bytes('name: "m"'.encode("utf-16"))

    assert _only(path) == ("the file is in UTF-16", None)
