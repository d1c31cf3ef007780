"""Label files: what their lines are, which outputs of an ensemble have whose, and what is said of one that cannot be read."""

import pathlib

import msgspec
import pytest

from naiad.config.labels import inherited, split
from naiad.config.resolving import composing
from naiad.config.resolving.resolve import Resolution
from tests.server.config.model_folders import make_model, resolve
from tests.server.config.test_resolve import X
from tests.support.ensembles import ensemble, model, step


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (b"", ()),
        (b"a", (b"a",)),
        (b"a\nb\n", (b"a", b"b")),
        (b"a\n\n b \r\nc\n\n", (b"a", b"", b" b \r", b"c", b"")),
        (b"\n", (b"",)),
    ],
)
def test_each_line_is_a_label_as_it_is(text: bytes, lines: tuple[bytes, ...]) -> None:
    assert split(text) == lines


CONFIG = (
    'backend: "onnxruntime"\noutput { name: "y" data_type: TYPE_FP32 dims: 2\n'
    'label_filename: "names.txt" }\n'
)


def _resolved(tmp_path: pathlib.Path, text: str = "cat\ndog\n") -> Resolution:
    folder = make_model(tmp_path, CONFIG, files={"1/model.onnx": X})
    (folder / "names.txt").write_text(text)
    return resolve(folder)


def test_a_config_has_the_labels_of_its_files(tmp_path: pathlib.Path) -> None:
    resolution = _resolved(tmp_path)
    assert resolution.draft is not None
    assert resolution.draft.labels == {"y": (b"cat", b"dog")}


def test_a_label_that_is_not_utf8_is_a_warning_with_its_line(tmp_path: pathlib.Path) -> None:
    folder = make_model(tmp_path, CONFIG, files={"1/model.onnx": X})
    (folder / "names.txt").write_bytes("café\n".encode() + "café\n".encode("latin-1"))
    (warning,) = [each for each in resolve(folder).warnings if "label" in each]
    assert warning.startswith(f"label file {folder / 'names.txt'}, line 2: the label is not UTF-8")
    (folder / "names.txt").write_text("café\n")
    assert not [each for each in resolve(folder).warnings if "label" in each]


def test_a_file_that_cannot_be_read_is_a_problem_at_its_line(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = pathlib.Path.read_bytes

    def refuse(path: pathlib.Path) -> bytes:
        if path.name == "names.txt":
            raise PermissionError(13, "Permission denied")
        return read(path)

    monkeypatch.setattr(pathlib.Path, "read_bytes", refuse)
    (problem,) = [
        each for each in _resolved(tmp_path).problems if "failed to open text file" in each.message
    ]
    assert problem.message.endswith("names.txt: Permission denied")
    assert problem.position is not None
    assert problem.position.line == 3


def test_a_folder_in_place_of_the_file_is_said_to_be_one(tmp_path: pathlib.Path) -> None:
    config = CONFIG.replace("names.txt", "1")
    folder = make_model(tmp_path, config, files={"1/model.onnx": X})
    messages = [each.message for each in resolve(folder).problems]
    assert f"failed to open text file for read {folder}/1: Is a directory" in messages


def test_an_output_of_an_ensemble_has_the_labels_of_the_step_that_makes_it() -> None:
    steps = [({"o": "t"}, {"o": (b"1",)}), ({"p": "y", "q": "z"}, {"p": (b"2",), "q": (b"3",)})]
    assert inherited(("y", "z"), {"z": (b"own",)}, steps) == {"y": (b"2",), "z": (b"own",)}


def test_a_bound_ensemble_has_them() -> None:
    first = model("a", "i", "o")
    second = msgspec.structs.replace(model("b", "i", "o"), labels={"o": (b"cat",)})
    chain = ensemble("x", "y", step("a", "i=x", "o=t"), step("b", "i=t", "o=y"))
    config, wrong = composing.bound(chain, {"a": {1: first}, "b": {1: second}})
    assert not wrong
    assert config.labels == {"y": (b"cat",)}
