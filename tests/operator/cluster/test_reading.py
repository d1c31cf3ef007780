"""Objects that cannot be read, in lists, watches and alone: they are marked, and the others are read."""

import functools
import json
import logging
from typing import Any

import pytest

from naiad_operator.api.manifests.unreadable import (
    FRACTIONS,
    MAX_CONTAINERS,
    MAX_ESCAPES,
    MAX_FRACTIONS,
    MAX_LEVELS,
    MAX_VALUES,
    problem_of,
)
from naiad_operator.cluster import decoding, packed, reading
from tests.support.calls import calls_of

Object = dict[str, Any]
DEPTHS = (1_000, 5_000, 10_000)
LABELS = {"a": '"managedFields":[],"name":"b"},"spec":{'}


def nested(levels: int) -> str:
    """JSON that `json.dumps` could not write."""
    return '{"x":' * levels + "1" + "}" * levels


def metadata(name: str, managed: str = "{}") -> str:
    """As API servers write that of custom resources: sorted."""
    fields = f'"managedFields":[{{"fieldsV1":{managed},"manager":"kubectl"}}]'
    return (
        f'{{"annotations":{json.dumps(LABELS)},"creationTimestamp":"2026-01-31T12:00:00Z","generation":3,"labels":{json.dumps(LABELS)},{fields},'
        f'"name":"{name}","namespace":"team","resourceVersion":"7","uid":"uid-{name}"}}'
    )


def text(name: str, value: str, *, managed: str = "{}", status: str = "") -> bytes:
    """A service with any value as its affinity, as API servers write it."""
    after = f',"status":{status}' if status else ""
    return (
        f'{{"apiVersion":"serving.naiad.dev/v1alpha1","kind":"InferenceService","metadata":{metadata(name, managed)},'
        f'"spec":{{"predictor":{{"affinity":{{"nodeAffinity":{value}}}}}}}{after}}}'
    ).encode()


def page(*items: bytes) -> bytes:
    start = b'{"apiVersion":"serving.naiad.dev/v1alpha1","items":['
    end = b'],"kind":"InferenceServiceList","metadata":{"continue":"next","resourceVersion":"9"}}'
    return start + b",".join(items) + end


def partial(name: str, managed: str = "{}") -> bytes:
    """As API servers write the metadata alone: in the order of their declaration."""
    return (
        f'{{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{{"name":"{name}","namespace":"team","uid":"uid-{name}",'
        f'"resourceVersion":"7","generation":3,"annotations":{json.dumps(LABELS)},"managedFields":[{{"fieldsV1":{managed}}}]}}}}'
    ).encode()


def head(item: Object) -> tuple[str, str, str, str, int]:
    found = item["metadata"]
    fields = ("namespace", "name", "uid", "resourceVersion")
    namespace, name, uid, version = (found[field] for field in fields)
    return namespace, name, uid, version, found["generation"]


def expected(name: str) -> tuple[str, str, str, str, int]:
    return "team", name, f"uid-{name}", "7", 3


@pytest.mark.parametrize("depth", DEPTHS)
def test_an_object_that_is_too_deep_keeps_its_head_and_its_status(depth: int) -> None:
    status = '{"conditions":[{"type":"Ready","status":"True"}],"observedGeneration":2}'
    item = reading.read_object(
        text("deep", nested(depth), managed=nested(depth + 4), status=status)
    )
    assert head(item) == expected("deep")
    assert item["metadata"]["labels"] == LABELS
    assert item["status"] == json.loads(status)
    assert "spec" not in item
    assert problem_of(item) == (
        f"spec.predictor.affinity is nested too deeply to be meant: an object may have {MAX_LEVELS} levels"
    )


def test_the_bound_is_exact_and_does_not_depend_on_the_stack() -> None:
    outer = 4  # the object, spec, predictor, affinity
    most = text("deep", nested(MAX_LEVELS - outer), managed=nested(MAX_LEVELS + 2))
    assert reading.read_object(most) == json.loads(most)
    more = text("deep", nested(MAX_LEVELS - outer + 1))
    assert "nested too deeply" in problem_of(reading.read_object(more))

    def at(frames: int) -> Object:
        return at(frames - 1) if frames else reading.read_object(most)

    assert at(300) == json.loads(most)


def test_brackets_in_strings_do_not_count() -> None:
    string = json.dumps("{[" * 200 + '\\"}]')
    assert problem_of(reading.read_object(text("a", string))) == ""
    hidden = '{"}}}}":' * 150 + "1" + "}" * 150
    assert "nested too deeply" in problem_of(reading.read_object(text("a", hidden)))


@pytest.mark.parametrize("levels", [MAX_LEVELS - 3, MAX_LEVELS + 3, 1_000, 9_000])
@pytest.mark.parametrize("value", ["1", '"ab"', f'"{"x" * 80}"', '"\\\\\\""'])
def test_what_is_too_deep_is_found_before_a_megabyte_of_values_is_decoded(
    value: str, levels: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = min(1_000_000 // (len(value) + 1), MAX_ESCAPES // 8)
    many = f"[{f'{value},' * count}{value}]"
    bad = text("bad", f'{many},"affinity":{nested(levels)}')
    decoded: list[int] = []
    decode = decoding.decode

    def noted(part: bytes) -> Object:
        decoded.append(len(part))
        return decode(part)

    monkeypatch.setattr(decoding, "decode", noted)  # it would take most of 10 ms
    assert "nested too deeply" in problem_of(reading.read_object(bad))
    assert all(length < 1_000 for length in decoded), "the status alone"
    assert calls_of(functools.partial(reading.read_object, bad)) < 2_000, "not one for each value"


def test_numbers_of_many_digits_are_read_in_bounded_time() -> None:
    """The decoder's own reading takes ten microseconds for each of them, half a second for this object, so that it reads none."""
    item = text("a", f"[{'1.5e+300,' * (MAX_FRACTIONS - 1)}1.5e+300]")
    assert problem_of(reading.read_object(item)) == ""
    assert decoding._fractions.left == FRACTIONS.most - MAX_FRACTIONS
    assert packed.unpack(packed.pack(reading.read_object(item))) == json.loads(item)


@pytest.mark.parametrize("escaped", [3, 30_000])
@pytest.mark.parametrize(
    "string",
    ['"\\""', '"\\\\"', '"\\\\\\"{"', '"{\\\\\\\\"', '"\\n\\"]{"', '"\\u005c\\\\"'],
)
def test_quotes_in_strings_do_not_end_them(string: str, escaped: int) -> None:
    """Whether there are few or many."""
    quotes = json.dumps('"' * escaped)
    most = text("a", f'["x",{string},{quotes},{string},{nested(MAX_LEVELS - 5)}]')
    assert reading.read_object(most) == json.loads(most)
    more = text("a", f'["x",{string},{quotes},{string},{nested(MAX_LEVELS - 4)}]')
    assert "nested too deeply" in problem_of(reading.read_object(more))


def test_managed_fields_that_are_much_too_deep_make_an_object_unreadable() -> None:
    item = reading.read_object(text("deep", "1", managed=nested(MAX_LEVELS + 20)))
    assert head(item) == expected("deep")
    assert "nested too deeply" in problem_of(item)


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("1e999", "not valid JSON (Number out of range"),
        ('"\\ud800"', "not valid JSON"),
        ("NaN", "not valid JSON"),
        (f"[{'[],' * MAX_CONTAINERS}1]", "more than 12,500 objects and lists"),
        (f"[{'[],' * MAX_CONTAINERS}{nested(2_000)}]", "more than 12,500 objects and lists"),
        (f"[{'1,' * MAX_VALUES}1]", "more than 25,000 values"),
        (json.dumps("," * MAX_VALUES), "more than 25,000 values"),
        (f"[{'0.5,' * MAX_FRACTIONS}1e+300]", "more than 2,500 numbers"),
        (json.dumps('"' * (MAX_ESCAPES // 2)), "more than 75,000 quotes and backslashes"),
    ],
    ids=[
        "number",
        "half a character",
        "no number",
        "many",
        "many and deep",
        "values",
        "commas",
        "fractions",
        "quotes",
    ],
)
def test_an_object_with_another_flaw_keeps_its_head(value: str, problem: str) -> None:
    item = reading.read_object(text("bad", value))
    assert head(item) == expected("bad")
    assert problem in problem_of(item)


@pytest.mark.parametrize(
    ("spec", "known"),
    [
        ('"affinity":{0},"policy":{{"enforced":["env"],"namespaces":{{"names":["a"]}}}}', {"policy": {"namespaces": {"names": ["a"]}}}),
        ('"affinity":{0},"default":true,"podTemplate":{{"policy":{{"namespaces":{{"names":["b"]}}}}}}', {"default": True}),
        ('"affinity":{0}', {}),
        ('"affinity":{0},"policy":7', None),
    ],
)  # fmt: skip
def test_of_a_profile_that_cannot_be_read_its_namespaces_are_known(
    spec: str, known: Object | None
) -> None:
    """Unless they are wrong themselves, or too much is nested for the decoder to skip."""
    kind = f'{{"apiVersion":"serving.naiad.dev/v1alpha1","kind":"NaiadProfile","metadata":{metadata("a")}'
    for value, expected in ((nested(150), known), (f"[{'1,' * MAX_VALUES}1]", known), (nested(5_000), None)):  # fmt: skip
        item = reading.read_object(f'{kind},"spec":{{{spec.format(value)}}}}}'.encode())
        assert problem_of(item)
        assert item.get("spec") == expected


def test_bytes_that_are_not_utf_8_are_a_flaw_of_their_object_alone() -> None:
    bad = text("bad", '"?"').replace(b"?", b"\xff")
    items = list(reading.read_list(page(text("a", "1"), bad, text("b", "1"))).items)
    assert [head(item)[1] for item in items] == ["a", "bad", "b"]
    assert [bool(problem_of(item)) for item in items] == [False, True, False]


def test_a_status_that_is_too_deep_is_left_out() -> None:
    item = reading.read_object(text("deep", "1", status=nested(3_000)))
    assert head(item) == expected("deep")
    assert "status" not in item


def test_a_spec_cannot_pass_for_the_head() -> None:
    forged = '{"metadata":{"name":"other","uid":"u"},"spec":{},"status":{"replicas":9},"items":[]}'
    item = reading.read_object(text("mine", f'[{forged},{nested(2_000)},"}},\\"spec\\":"]'))
    assert head(item) == expected("mine")
    assert "status" not in item


def test_a_page_with_one_object_is_read_whatever_its_depth() -> None:
    with pytest.raises(RecursionError):
        reading.read_list(page(text("a", "1"), text("deep", nested(1_000))))
    forged = f'[{nested(1_000)},{{"items":[{{"name":"x"}}],"kind":"y","metadata":{{}}}}]'
    read = reading.read_single(page(text("deep", forged)))
    assert [head(item) for item in read.items] == [expected("deep")]
    assert (read.version, read.continue_token) == ("9", "next")
    assert list(reading.read_single(page()).items) == []


def test_a_list_of_other_objects_has_its_metadata_first() -> None:
    start = b'{"kind":"DeploymentList","apiVersion":"apps/v1","metadata":{"resourceVersion":"9"},"items":['
    read = reading.read_single(start + text("deep", nested(5_000)) + b"]}")
    assert [head(item) for item in read.items] == [expected("deep")]
    assert (read.version, read.continue_token) == ("9", "")


@pytest.mark.parametrize("depth", DEPTHS)
def test_the_metadata_of_services_are_read_beside_deep_ones(depth: int) -> None:
    start = b'{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"9"},"items":['
    items = [partial("a"), partial("deep", nested(depth)), partial("b")]
    read = reading.read_metadata_list(start + b",".join(items) + b"]}\n")
    assert [head(item) for item in read.items] == [expected(name) for name in ("a", "deep", "b")]
    assert (read.version, read.continue_token) == ("9", "")


@pytest.mark.parametrize("depth", [1, *DEPTHS])
@pytest.mark.parametrize("deep", [text, partial])
def test_a_line_of_a_watch_is_read_whatever_its_depth(depth: int, deep: Any) -> None:
    line = b'{"type":"MODIFIED","object":' + deep("a", nested(depth)) + b"}\n"
    event = reading.read_event(line)
    assert event.type == "MODIFIED"
    assert head(event.object) == expected("a")
    assert bool(problem_of(event.object)) == (depth > 1)


@pytest.mark.parametrize(
    "line", [b"<html>", b"{}", b'{"type":"ADDED"}', b"[" * 5_000, b""], ids=range(5)
)
def test_a_line_that_is_not_an_event_is_an_error(line: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        reading.read_event(line)


@pytest.mark.parametrize("answer", [b"<html>", b"[]", b"1", b"", b"[" * 5_000], ids=range(5))
def test_what_is_not_an_object_is_an_error(answer: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        reading.read_object(answer)


def test_each_unreadable_object_is_logged_and_counted_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    seen = reading.Unreadable()
    with caplog.at_level(logging.WARNING):
        for name in ("a", "b", "a", "a"):
            seen.note("inferenceservices", reading.read_object(text(name, nested(1_000))))
        seen.note("inferenceservices", reading.read_object(text("fine", "1")))
    assert seen.counts == {"inferenceservices": 2}
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == [
        "inferenceservices team/a cannot be read",
        "inferenceservices team/b cannot be read",
    ]


@pytest.mark.parametrize("before", ['"a"', '"\\\\\\""', '"' + '\\"' * 20_000 + '"'])
def test_the_deep_field_is_searched_in_linear_time(before: str) -> None:
    """The test ends; a search that began again at each quote would take minutes."""
    marks = before.count('"') + before.count("\\")
    many = ",".join([before] * min(MAX_VALUES - 100, (MAX_ESCAPES - 5_000) // marks))
    item = reading.read_object(text("a", f"[{many},{nested(2_000)}]"))
    assert "nested too deeply" in problem_of(item)
