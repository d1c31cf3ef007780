"""Where the strategy of a model is looked for, and what is refused before anything runs."""

import pathlib

import pytest

from naiad.backends.catalog import Catalog
from naiad.config.resolving import resolve as resolving
from naiad.config.resolving.resolve import Resolution
from tests.server.config.model_folders import make_model, resolve
from tests.server.config.test_resolve import X

GOOD = b"class BatchStrategy:\n    def include(self, batch, request):\n        return True\n"
DYNAMIC = 'backend: "python" max_batch_size: 8 dynamic_batching { }\n'
_PARAMETER = 'parameters {{ key: "TRITON_BATCH_STRATEGY_PATH" value {{ string_value: "{}" }} }}\n'


def made(
    tmp_path: pathlib.Path, files: dict[str, bytes], *, path: str = "", config: str = DYNAMIC
) -> Resolution:
    text = config + (_PARAMETER.format(path) if path else "")
    return resolve(make_model(tmp_path, text, files={"1/model.py": b"", **files}))


def found(resolution: Resolution) -> dict[int, str]:
    assert resolution.problems == ()
    return {version: str(path.name) for version, path in resolution.strategies.items()}


@pytest.mark.parametrize("where", ["1/batchstrategy.py", "batchstrategy.py"])
def test_it_is_found_in_the_folders(tmp_path: pathlib.Path, where: str) -> None:
    assert found(made(tmp_path, {where: GOOD})) == {1: "batchstrategy.py"}


def test_that_of_the_version_comes_first(tmp_path: pathlib.Path) -> None:
    resolution = made(tmp_path, {"batchstrategy.py": GOOD, "1/batchstrategy.py": GOOD})
    assert resolution.strategies[1].parent.name == "1"


@pytest.mark.parametrize("path", ["mine.py", "$$TRITON_MODEL_DIRECTORY/mine.py", "mine.so"])
def test_the_parameter_names_it(tmp_path: pathlib.Path, path: str) -> None:
    files = {"mine.py": GOOD, "mine.so": b"", "batchstrategy.py": b"other"}
    assert found(made(tmp_path, files, path=path)) == {1: "mine.py"}


def test_one_in_python_beside_a_library_is_taken(tmp_path: pathlib.Path) -> None:
    files = {"batchstrategy.so": b"", "batchstrategy.py": GOOD}
    assert found(made(tmp_path, files)) == {1: "batchstrategy.py"}


@pytest.mark.parametrize(
    ("files", "path", "message", "advice"),
    [
        ({"batchstrategy.so": b""}, "", "batchstrategy.so is not a batching strategy: it is not an ELF file", "write batchstrategy.py beside it"),
        ({"1/batchstrategy.so": b""}, "", "batchstrategy.so is not a batching strategy: it is not an ELF file", "with a class BatchStrategy"),
        ({"mine.so": b""}, "mine.so", "mine.so is not a batching strategy: it is not an ELF file", "batchstrategy.py"),
        ({}, "nowhere.py", "Batching library path not found: ", "put the file there"),
        ({}, "../other/batchstrategy.py", "Batching library path escapes model repository", "copy the file"),
        ({}, "/etc/passwd", "Batching library path escapes model repository", "copy the file"),
        ({"batchstrategy.py": b"def include(): pass"}, "", "batchstrategy.py has no class BatchStrategy", "include(self, batch, request)"),
        ({"batchstrategy.py": b"class BatchStrategy:\n    pass"}, "", "does not define all required custom batching functions: include is missing", "add def include"),
        ({"batchstrategy.py": b"\n\nclass :"}, "", "batchstrategy.py is not valid Python", "correct it"),
        ({"batchstrategy.py": b"import no_such.thing\n" + GOOD}, "", "batchstrategy.py imports 'no_such.thing', which is not installed", "install what has 'no_such'"),
        ({"batchstrategy.py": b"from no_such import x\n" + GOOD}, "", "batchstrategy.py imports 'no_such', which is not installed", "or take the import out"),
        ({"batchstrategy.py": b"import beside_it\n" + GOOD, "beside_it.py": b""}, "", "batchstrategy.py imports 'beside_it', which is not installed", "put the code into batchstrategy.py"),
        ({"batchstrategy.py": b"from . import beside_it\n" + GOOD, "beside_it.py": b""}, "", "batchstrategy.py imports what is beside it", "put the code into batchstrategy.py"),
    ],
)  # fmt: skip
def test_what_is_refused(
    tmp_path: pathlib.Path, files: dict[str, bytes], path: str, message: str, advice: str
) -> None:
    (problem,) = made(tmp_path, files, path=path).problems
    assert message in problem.message
    assert advice in problem.suggestion


def test_a_mistake_has_its_line(tmp_path: pathlib.Path) -> None:
    for mistake in (b"\n\nclass :", b"\n\nimport no_such\n" + GOOD):
        (tmp_path / str(len(mistake))).mkdir()
        (problem,) = made(tmp_path / str(len(mistake)), {"batchstrategy.py": mistake}).problems
        assert problem.position is not None
        assert (problem.path.name, problem.position.line) == ("batchstrategy.py", 3)
        assert problem.line_text == mistake.decode().splitlines()[2]


def test_an_import_that_may_fail_is_left_to_the_load(tmp_path: pathlib.Path) -> None:
    source = b"try:\n    import no_such\nexcept ImportError:\n    no_such = None\n" + GOOD
    assert found(made(tmp_path, {"batchstrategy.py": source})) == {1: "batchstrategy.py"}


def test_it_does_not_go_with_sequences(tmp_path: pathlib.Path) -> None:
    config = 'backend: "python" max_batch_size: 8 sequence_batching { }\n'
    resolution = made(tmp_path, {"mine.py": GOOD}, path="mine.py", config=config)
    assert any(
        "TRITON_BATCH_STRATEGY_PATH cannot be specified with sequence batcher" in each.message
        for each in resolution.problems
    )


def test_without_dynamic_batching_it_has_no_effect(tmp_path: pathlib.Path) -> None:
    config = 'backend: "python" max_batch_size: 8\n'
    resolution = made(tmp_path, {"batchstrategy.py": GOOD}, config=config)
    assert not resolution.strategies
    assert any("the batching strategy has no effect" in note for note in resolution.notes)


def test_an_inherited_or_imported_class_is_taken_as_it_is(tmp_path: pathlib.Path) -> None:
    source = b"from collections import Counter as BatchStrategy\n"
    assert found(made(tmp_path, {"batchstrategy.py": source})) == {1: "batchstrategy.py"}


def test_that_of_the_backend_comes_last(tmp_path: pathlib.Path) -> None:
    backends = tmp_path / "backends"
    (backends / "python").mkdir(parents=True)
    (backends / "python" / "batchstrategy.py").write_bytes(GOOD)
    catalog = Catalog(backends)
    folder = make_model(tmp_path, DYNAMIC, files={"1/model.py": b""})
    found = resolving.resolve(folder, backends=catalog)
    assert found.strategies == {1: backends / "python" / "batchstrategy.py"}
    (folder / "batchstrategy.py").write_bytes(GOOD)
    found = resolving.resolve(folder, backends=catalog)
    assert found.strategies == {1: folder / "batchstrategy.py"}


def test_dynamic_batching_that_the_model_file_completes_is_enough(tmp_path: pathlib.Path) -> None:
    folder = make_model(tmp_path, files={"1/model.onnx": X, "1/batchstrategy.py": GOOD})
    assert found(resolve(folder)) == {1: "batchstrategy.py"}
