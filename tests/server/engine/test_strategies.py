"""The code of strategies in the server: each load has a module of its own, and what goes wrong is said with its line."""

import pathlib
import sys
from collections.abc import Iterator

import pytest

from naiad.core.messages import model_config_pb2
from naiad.engine.strategies import LoadedStrategy, load_strategy
from naiad.errors import ErrorCode, InferenceError
from naiad.repository.plan import VersionPlan
from tests.server.backends.configs import model_config

SOURCE = """
import dataclasses

calls = []


@dataclasses.dataclass
class State:
    count: "int" = 0


class BatchStrategy:
    def initialize(self, model):
        self.model = model
        calls.append(model.name)

    def begin_batch(self):
        return State()

    def include(self, batch, request):
        return True
"""


@pytest.fixture(autouse=True)
def no_modules_are_left() -> Iterator[None]:
    before = set(sys.modules)
    yield
    assert not [name for name in set(sys.modules) - before if "batch_strategy_" in name]


def load(path: pathlib.Path, source: str = SOURCE) -> LoadedStrategy:
    path.write_text(source)
    config = model_config(inputs=[], outputs=[], backend="python", parameters={"k": "v"})
    assert isinstance(config.message, model_config_pb2.ModelConfig)
    return load_strategy(
        VersionPlan(config=config, version=3, model_dir=path.parent, strategy=path)
    )


def test_two_loads_of_one_file_share_nothing(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "batchstrategy.py"
    first, second = load(path), load(path)
    assert type(first.code) is not type(second.code)
    assert sys.modules[type(first.code).__module__].calls == ["m"]
    assert first.code.begin_batch().count == 0
    model = second.code.model
    assert (model.name, model.version, model.max_batch_size) == ("m", 3, 8)
    assert model.parameters == {"k": "v"}
    assert model.config["max_batch_size"] == 8
    for loaded in (first, second):
        loaded.close()
        loaded.close()
    assert [each.name for each in tmp_path.iterdir()] == ["batchstrategy.py"]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("import nowhere_at_all", "{path}:1: ModuleNotFoundError: No module named 'nowhere_at_all'; install what has 'nowhere_at_all' in the Python environment of the server"),
        ("\nimport beside_it", "{path}:2: ModuleNotFoundError: No module named 'beside_it'; put the code into batchstrategy.py: it can import packages"),
        ("from . import beside_it", "{path}:1: ImportError: attempted relative import with no known parent package; put the code into batchstrategy.py"),
        ("from math import nothing", "{path}:1: ImportError: cannot import name 'nothing' from 'math'"),
        ("\n\ndef x(:", "{path}:3: SyntaxError: "),
        ("\nraise SystemExit(3)", "{path}:2: SystemExit: 3; correct batchstrategy.py, and load the model again"),
        ("BatchStrategy = 5", "needs a class BatchStrategy with a method include"),
        (SOURCE.replace("self.model = model", "self.model = model.nothing"), "{path}:14: AttributeError: "),
    ],
)  # fmt: skip
def test_what_cannot_be_loaded(tmp_path: pathlib.Path, source: str, message: str) -> None:
    path = tmp_path / "batchstrategy.py"
    (tmp_path / "beside_it.py").write_text("")
    with pytest.raises(InferenceError) as caught:
        load(path, source)
    assert caught.value.code is ErrorCode.INVALID_ARG
    assert message.format(path=path) in caught.value.message
