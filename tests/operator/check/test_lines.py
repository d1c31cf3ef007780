"""`naiad-operator check` says in which line something is wrong, whatever a file holds."""

import json
import pathlib

import pytest

from naiad_operator import cli

HEAD = """apiVersion: serving.naiad.dev/v1alpha1
kind: InferenceService
metadata:
  name: demo
"""
GOOD = f"""{HEAD}spec:
  predictor:
    model:
      storageUri: s3://a/b
"""
"""Eight lines: what a test adds stands in line 9."""


class Saying:
    """What is said of a file's text, without the file's name and the number of problems."""

    def __init__(self, path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
        self._path = path
        self._capsys = capsys

    def __call__(self, content: str | bytes) -> list[str]:
        self._path.write_bytes(content.encode() if isinstance(content, str) else content)
        status = cli.main(["check", "-q", "-f", str(self._path)])
        *lines, last = self._capsys.readouterr().err.splitlines()
        assert status == (0 if last.endswith("valid") else 1)
        assert all(line.startswith(f"{self._path}:") for line in lines)
        return [line.removeprefix(f"{self._path}:") for line in lines]

    def fields(self, content: str) -> list[str]:
        """Only the lines and the fields."""
        return [":".join(line.split(":")[:2]) for line in self(content)]


@pytest.fixture
def check(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> Saying:
    return Saying(tmp_path / "a.yaml", capsys)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"{GOOD}    replicas: two\n    replics: 1\n", ["9: spec.predictor.replicas", "10: spec.predictor.replics"]),
        (f"{GOOD}    env:\n      - name: A\n      - name: B\n        value: 7\n", ["12: spec.predictor.env[1].value"]),
        (f"{GOOD}    nodeSelector:\n      a.b/c: x\n      a.b: 1\n", ["11: spec.predictor.nodeSelector[a.b]"]),
        (f"{GOOD}    podTemplate:\n      spec:\n        containers: 3\n", ["11: spec.predictor.podTemplate.spec.containers"]),
        (GOOD.replace("demo", "Demo"), ["4: metadata.name"]),
        (f"{GOOD}status: 3\n", ["9: status"]),
        (f"# one\n\n{GOOD}    replicas: two\n", ["11: spec.predictor.replicas"]),
    ],
)  # fmt: skip
def test_a_field_is_reported_with_its_line(check: Saying, text: str, message: list[str]) -> None:
    if "drainSeconds" in text:
        message = [
            "8: spec.predictor.terminationGracePeriodSeconds"
        ]  # not there: the predictor's line
    assert check.fields(text) == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"{GOOD}    drainSeconds: 60\n", "6: spec.predictor.terminationGracePeriodSeconds"),
        (f"{GOOD}    env:\n      - value: a\n", "10: spec.predictor.env[0].name"),
        (GOOD.replace("  name: demo", "  labels: {a: b}"), "3: metadata.name"),
        (HEAD, "1: spec"),
        (GOOD.replace("kind: InferenceService\n", ""), "1: kind"),
    ],
)  # fmt: skip
def test_a_missing_field_is_reported_with_the_line_of_its_parent(
    check: Saying, text: str, message: str
) -> None:
    assert message in check.fields(text)


def test_each_of_several_documents_has_its_own_lines(check: Saying) -> None:
    second = GOOD.replace("demo", "second")
    assert check.fields(f"{GOOD}    a: 1\n---\n# a remark\n---\n{second}    b: 1\n") == [
        "9: spec.predictor.a",
        "21: spec.predictor.b",
    ]


def test_json_has_lines_too_also_with_tabs(check: Saying) -> None:
    manifest = {
        "apiVersion": "serving.naiad.dev/v1alpha1",
        "kind": "InferenceService",
        "metadata": {"name": "demo"},
        "spec": {"predictor": {"model": {"storageUri": "s3://a/b"}, "replics": 2}},
    }
    items = {"apiVersion": "v1", "kind": "List", "items": [manifest, 7]}
    assert check.fields(json.dumps(manifest, indent=2)) == ["12: spec.predictor.replics"]
    assert check.fields(json.dumps(manifest, indent="\t")) == ["12: spec.predictor.replics"]
    assert check.fields(json.dumps(items, indent=1))[0] == "16: spec.predictor.replics"
    assert check(json.dumps(items, indent=1))[1].startswith("20: is 7: write a mapping")
    broken = json.dumps(manifest, indent="\t").replace('"demo"', "demo")
    assert check(broken) == ["5: is not valid JSON: Expecting value, in column 11"]


def test_a_value_from_an_alias_is_reported_where_it_is_written(check: Saying) -> None:
    text = f"{GOOD}    env:\n      - &first {{name: A, value: 1}}\n      - <<: *first\n        name: B\n"
    assert check.fields(text) == [
        "10: spec.predictor.env[0].value",
        "10: spec.predictor.env[1].value",
    ]


def test_a_merge_over_a_merge_is_not_a_duplicate_key(check: Saying) -> None:
    beside = "x: {y: &a {<<: &b {k: 1}, k: 2}}\nz: {<<: *a}\n"
    assert check(f"{beside}---\n{GOOD}") == []


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        (f"{GOOD}\treplicas: 1\n", 9, "indent with spaces"),
        (GOOD.replace("s3://a/b", "s3://a/b: c"), 8, "in quotes"),
        (f"{GOOD}   replicas: 1\n", 9, "indent the fields of one mapping alike"),
        (f"{GOOD}    args: [--a\n", 10, "still open"),
        (GOOD.replace("demo", "{{ .Values.name }}"), 4, "helm template"),
        (f"{{{{- if .Values.on }}}}\n{GOOD}", 1, "helm template"),
        (f"{GOOD}    replicas: *many\n", 9, "an anchor holds only in its own document"),
        (f"{GOOD}    replicas: !!python/object:a.b 1\n", 9, "leave the tag out"),
        (f"{GOOD}    replicas: 1{'0' * 5000}\n", 9, "this is not a readable int"),
        (f"{GOOD}    replicas: !!int many\n", 9, "this is not a readable int"),
        (f"{GOOD}    replicas: !!int ''\n", 9, "this is not a readable int"),
        (f"{GOOD}    args: !!map 3\n", 9, "though its tag says so: leave the tag out"),
        (GOOD.replace("kind: InferenceService", "kind: []"), 2, "write kind: InferenceService"),
        (GOOD.replace("demo", "[]"), 4, "metadata.name: is []: write a text"),
        (GOOD.replace("demo", "0"), 4, "metadata.name: is 0: write a text"),
        (f"{GOOD}    podTemplate: &a\n      spec: *a\n", 9, "this value contains itself"),
        (f"{GOOD}    image: a\x07\n", 9, "contains the character U+0007"),
        (GOOD.replace("s3://a/b", '"\\ud83d"'), 8, "half a character"),
        ('{"kind": "List"}\n{"kind": "List"}', 2, "put a line --- between two documents"),
    ],
)
def test_an_unreadable_document_is_reported_with_line_and_advice(
    check: Saying, text: str, line: int, words: str
) -> None:
    [message] = check(text)
    assert message.startswith(f"{line}: ")
    assert words in message


def test_a_file_that_is_not_utf_8_is_reported_with_its_line(check: Saying) -> None:
    assert check(f"{GOOD}    # \u00fc\n".encode("latin-1")) == [
        "9: is not UTF-8 text: save it as UTF-8"
    ]
    assert check(f"\ufeff{GOOD}") == []


def test_an_invalid_document_does_not_prevent_the_check_of_others(check: Saying) -> None:
    twice = f"{GOOD}    image: a\n    image: b\n    env: [{{name: A, name: B}}]\n"
    assert check(f"{twice}---\n{GOOD}    a: 1\n---\nb: [")[:3] == [
        "10: the key 'image' appears twice, the first time in line 9: write it once",
        "11: the key 'name' appears twice, the first time in line 11: write it once",
        check(f"{twice}---\n{GOOD}    a: 1\n")[-1],
    ]


def test_aliases_that_expand_without_bound_are_rejected(check: Saying) -> None:
    levels = [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 9)]
    text = "\n".join(["a0: &a0 [x]", *levels, f"{GOOD}    args: *a8\n"])
    [message] = check(text)
    assert "expand to more than a million values" in message


def test_long_values_are_cut(check: Saying) -> None:
    [message] = check(f"{GOOD}    args: {{a: {list(range(1000))}}}\n")
    assert len(message) < 250
    assert message.endswith(": write a list")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (GOOD.replace("kind: InferenceService\n", ""), "kind: is missing: write kind: InferenceService"),
        (f"{HEAD}spec:\n", "spec: is empty: write a mapping"),
        (f"{GOOD}predictor: {{}}\n", "there is no such field beside spec: did you mean spec.predictor?"),
        (GOOD.replace("\n  name: demo", " demo"), "metadata: is 'demo': write a mapping with a name"),
    ],
)  # fmt: skip
def test_sentences_are_about_the_file_and_not_about_the_program(
    check: Saying, text: str, sentence: str
) -> None:
    assert any(sentence in line for line in check(text))


def test_lists_that_a_cluster_gives_are_looked_into(
    check: Saying, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    items = "".join(f"  {line}\n" for line in f"{GOOD}    a: 1".splitlines())
    text = (
        f"apiVersion: serving.naiad.dev/v1alpha1\nkind: InferenceServiceList\nitems:\n-{items[1:]}"
    )
    assert check.fields(text) == ["12: spec.predictor.a"]
    empty = tmp_path / "empty.yaml"
    empty.write_text("apiVersion: v1\nkind: List\nitems: []\n")
    assert cli.main(["check", "-f", str(empty)]) == 1
    assert capsys.readouterr().err == f"nothing to check: no InferenceService in {empty}\n"


def test_a_duplicate_service_in_a_file_is_reported(check: Saying) -> None:
    assert check(f"{GOOD}---\n{GOOD}") == [
        "13: metadata.name: the service 'demo' is already in line 4: rename this one, or remove one of them"
    ]
    elsewhere = GOOD.replace("name: demo", "name: demo\n  namespace: other")
    assert check(f"{GOOD}---\n{elsewhere}---\n{GOOD.replace('demo', 'second')}") == []
