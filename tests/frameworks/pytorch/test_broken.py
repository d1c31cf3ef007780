"""`naiad check` says of a broken PyTorch model what the server says of it, in the same words, without importing torch."""

import io
import pathlib
import pickle
import subprocess
import sys

import pytest
import torch

from naiad.config.report import one_line
from tests.frameworks.pytorch.models import save
from tests.frameworks.pytorch.test_torchscript import Linear, Number, Two
from tests.server.broken_repositories import Broken
from tests.support.check_and_serve import Compared, compare, same_words

X = 'input { name: "x" data_type: TYPE_FP32 dims: [ 4 ] }\n'
OUT = 'output { name: "OUT__0" data_type: TYPE_FP32 dims: [ 3 ] }\n'
HEAD = 'backend: "pytorch"\nmax_batch_size: 4\n'
CODE_HEAD = 'backend: "pytorch" runtime: "model.py"\n'


def script(module: torch.nn.Module) -> bytes:
    """The TorchScript archive of a module."""
    import tempfile  # noqa: PLC0415

    with tempfile.TemporaryDirectory() as folder:
        return (save(pathlib.Path(folder), module) / "1" / "model.pt").read_bytes()


def checkpoint() -> bytes:
    """What `torch.save` writes."""
    content = io.BytesIO()
    torch.save({"w": torch.ones(1)}, content)
    return content.getvalue()


def parameter(key: str, value: str) -> str:
    return f'parameters {{ key: "{key}" value {{ string_value: "{value}" }} }}\n'


class Predicts(torch.nn.Module):
    @torch.jit.export  # type: ignore[untyped-decorator]
    def predict(self, x: torch.Tensor) -> torch.Tensor:
        return x


def program() -> bytes:
    """A program of torch.export that takes 1 to 4 rows."""
    rows = torch.export.Dim("rows", min=1, max=4)
    content = io.BytesIO()
    torch.export.save(torch.export.export(Linear(), (torch.ones(2, 4),), dynamic_shapes={"x": {0: rows}}), content)  # fmt: skip
    return content.getvalue()


WITH_WEIGHTS = "import torch\nclass Net(torch.nn.Linear):\n    def __init__(self):\n        super().__init__(4, 3)\n"
PREDICTS, DOUBLE = script(Predicts()), program()
LINEAR, TWO, NUMBER, CHECKPOINT = script(Linear()), script(Two()), script(Number()), checkpoint()


def linear(more: str = "", head: str = HEAD, tensors: str = X + OUT) -> Broken:
    return Broken(config=head + tensors + more, files={"1/model.pt": LINEAR})


BROKEN = {
    "no_file": Broken(config=HEAD + X + OUT, files={"1/other.pt": LINEAR}),
    "empty_file": Broken(config=HEAD + X + OUT, files={"1/model.pt": b""}),
    "cut_off": Broken(config=HEAD + X + OUT, files={"1/model.pt": LINEAR[: len(LINEAR) // 2]}),
    "a_checkpoint": Broken(config=HEAD + X + OUT, files={"1/model.pt": CHECKPOINT}),
    "a_pickle": Broken(config=HEAD + X + OUT, files={"1/model.pt": pickle.dumps({})}),
    "a_script_as_program": Broken(
        config='platform: "torch_aoti"\n' + X + OUT, files={"1/model.pt2": LINEAR}
    ),
    "no_tensors": Broken(config=HEAD, files={"1/model.pt": LINEAR}),
    "no_outputs": linear(tensors=X),
    "too_many_inputs": linear(tensors=X + X.replace("x", "y") + OUT),
    "too_few_inputs": Broken(config=HEAD + X.replace("x", "a") + OUT, files={"1/model.pt": TWO}),
    "argument_of_another_type": Broken(
        config=HEAD + X + X.replace('"x"', '"n"') + OUT, files={"1/model.pt": NUMBER}
    ),
    "index_beyond_the_last": linear(tensors=X.replace('"x"', '"x__1"') + OUT),
    "unsigned_input": linear(tensors=X.replace("FP32", "UINT16") + OUT),
    "unsigned_output": linear(tensors=X + OUT.replace("FP32", "UINT64")),
    "text_of_two_dimensions": linear(tensors=X.replace("FP32", "STRING") + OUT),
    "mode": linear(parameter("INFERENCE_MODE", "maybe")),
    "threads": linear(parameter("INTRA_OP_THREAD_COUNT", "all")),
    "compile": Broken(
        config=CODE_HEAD + X + OUT + parameter("TORCH_COMPILE_OPTIONAL_PARAMETERS", "fast"),
        files={"1/model.py": "import torch\n"},
    ),
    "runtime": linear('runtime: "other.py"\n'),
    "no_class": Broken(config=CODE_HEAD + X + OUT, files={"1/model.py": "import torch\n"}),
    "no_forward": Broken(config=HEAD + X + OUT, files={"1/model.pt": PREDICTS}),
    "code_with_an_error": Broken(config=CODE_HEAD + X + OUT, files={"1/model.py": "def ("}),
    "weights_that_are_a_model": Broken(
        config=CODE_HEAD + X + OUT, files={"1/model.py": WITH_WEIGHTS, "1/model.pt": LINEAR}
    ),
    "a_sequence_of_a_program": Broken(
        config='platform: "torch_aoti" max_batch_size: 4 sequence_batching {}\n' + X + OUT,
        files={"1/model.pt2": DOUBLE},
    ),
    "too_many_rows_of_a_program": Broken(
        config='platform: "torch_aoti" max_batch_size: 5\n' + X.replace('"x"', '"INPUT__0"') + OUT,
        files={"1/model.pt2": DOUBLE},
    ),
    "no_code": Broken(config=CODE_HEAD + X + OUT, files={"1/weights.bin": b""}),
    "code_that_raises": Broken(
        config=CODE_HEAD + X + OUT, files={"1/model.py": "import nonesuch\n"}, load=True
    ),
}


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Compared:
    """One server and two checks for all models, in threads, so that torch is imported once and not for each model."""
    root = tmp_path_factory.mktemp("models")
    for name, broken in BROKEN.items():
        broken.write(root / name)
    options = ["--backend-config=pytorch,host=thread"]
    return compare(root, BROKEN, log=tmp_path_factory.mktemp("log") / "server.log", options=options)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", BROKEN)
def test_the_check_gives_the_reason_of_the_index(name: str, compared: Compared) -> None:
    problems = (compared.loaded if BROKEN[name].load else compared.problems)[name]
    assert same_words(compared.reasons[name], problems), (
        compared.reasons[name],
        list(map(one_line, problems)),
    )


def test_the_check_imports_no_torch(tmp_path: pathlib.Path) -> None:
    BROKEN["too_many_inputs"].write(tmp_path / "m")
    code = f"import sys\nfrom naiad.check import main\nmain([{str(tmp_path)!r}])\nassert 'torch' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "configuration expects 2 inputs, model provides 1 (x)" in done.stdout
