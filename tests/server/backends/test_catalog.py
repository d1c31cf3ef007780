"""Which backends there are: the server's own, and those that installed packages register."""

import importlib
import logging
import pathlib
import subprocess
import sys
import tomllib
from collections.abc import Iterator

import pytest

from naiad.backends import catalog
from naiad.backends.catalog import OWN, Catalog
from naiad.backends.plugin import GROUP
from naiad.backends.python.backend import PythonBackend
from naiad.backends.registry import Registry
from naiad.backends.vllm.backend import VllmBackend
from naiad.core.clock import ManualClock
from naiad.errors import ErrorCode, InferenceError
from naiad.options.backend_config import backend_setting
from naiad.options.usage import UsageError
from tests.server.config.model_folders import make_model, only, resolve

PLUGIN = """
import types

from naiad.backends.plugin import BackendPlugin
from naiad.config.backend_type import ModelFormat
from naiad.config.option_values import integer

MADE = types.SimpleNamespace()
PLUGIN = BackendPlugin(
    name="acme",
    make=lambda context: MADE,
    formats=(ModelFormat(filename="model.acme", platform="acme_v1"),),
    cpu_instances=3,
    instance_kinds=frozenset({"KIND_CPU"}),
    options={"level": integer(example="2")},
)
"""


@pytest.fixture
def site(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[pathlib.Path]:
    """A folder that packages are installed into."""
    monkeypatch.syspath_prepend(tmp_path)
    catalog._installed.cache_clear()
    yield tmp_path
    catalog._installed.cache_clear()


def install(site: pathlib.Path, name: str, reference: str, module_text: str) -> None:
    module = reference.partition(":")[0]
    (site / f"{module}.py").write_text(module_text)
    info = site / f"{module}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{GROUP}]\n{name} = {reference}\n")
    importlib.invalidate_caches()


def test_the_servers_own_backends_are_declared_as_entry_points() -> None:
    root = pathlib.Path(__file__).parents[3]
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    assert project["entry-points"][GROUP] == OWN


def test_a_backend_of_an_installed_package_is_found_by_its_entry_point(site: pathlib.Path) -> None:
    install(site, "acme", "acme_backend:PLUGIN", PLUGIN)
    backend = Registry(clock=ManualClock()).get("acme")
    assert backend is sys.modules["acme_backend"].MADE


def test_its_models_are_known_by_their_files_and_get_its_defaults(site: pathlib.Path) -> None:
    install(site, "acme", "acme_backend:PLUGIN", PLUGIN)
    tensors = 'input { name: "x" data_type: TYPE_FP32 dims: 1 } output { name: "y" data_type: TYPE_FP32 dims: 1 }'
    resolution = resolve(make_model(site / "a", tensors, files={"1/model.acme": b""}), gpus=(0, 1))
    assert resolution.config is not None, resolution.problems
    message = resolution.config.message
    assert (message.backend, message.platform) == ("acme", "acme_v1")
    assert [(group.kind, group.count) for group in message.instance_group] == [(2, 3)]

    gpu = resolve(
        make_model(
            site / "b",
            tensors + " instance_group { kind: KIND_GPU }",
            files={"1/model.acme": b""},
        ),
        gpus=(0,),
    )
    assert "has kind KIND_GPU, which backend 'acme' does not support" in only(gpu).message
    assert only(gpu).suggestion == "write kind: KIND_CPU"

    absent = resolve(make_model(site / "c", f'backend: "acme" {tensors}', files={"1/x": b""}))
    assert only(absent).message.startswith("unable to load model 'm': unable to find")


def test_its_options_are_checked_at_start(site: pathlib.Path) -> None:
    install(site, "acme", "acme_backend:PLUGIN", PLUGIN)
    assert backend_setting("acme,level=7").value == "7"
    with pytest.raises(UsageError, match="level is 'high', expected an integer"):
        backend_setting("acme,level=high")
    with pytest.raises(UsageError, match="write level=2"):
        backend_setting("level=high")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("import absent_module", "cannot be imported: ModuleNotFoundError: No module named"),
        ("raise RuntimeError('no licence')", "cannot be imported: RuntimeError: no licence"),
        ("PLUGIN = 3", "is of type int, not BackendPlugin"),
        (PLUGIN.replace("acme", "acne"), "has the name 'acne': both must be the same"),
    ],
)
def test_a_broken_package_fails_its_own_models_with_the_reason(
    site: pathlib.Path, text: str, reason: str
) -> None:
    install(site, "acme", "acme_broken:PLUGIN", text)
    sys.modules.pop("acme_broken", None)
    registry = Registry(clock=ManualClock())
    assert isinstance(registry.get("python"), PythonBackend)
    with pytest.raises(
        InferenceError, match="unable to load backend 'acme': acme_broken:PLUGIN"
    ) as caught:
        registry.get("acme")
    assert reason in caught.value.message
    assert caught.value.code is ErrorCode.UNAVAILABLE


def test_a_package_cannot_take_the_name_of_the_servers_own_backend(
    site: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    install(site, "python", "acme_python:PLUGIN", PLUGIN.replace("acme", "python"))
    with caplog.at_level(logging.WARNING):
        assert isinstance(Registry(clock=ManualClock()).get("python"), PythonBackend)
        assert Catalog().find("no such backend") is None
    assert "backend python (acme_python:PLUGIN, package acme_python) is not used" in caplog.text


@pytest.mark.slow
def test_models_of_the_servers_own_backends_look_for_no_packages(tmp_path: pathlib.Path) -> None:
    make_model(tmp_path, 'backend: "python"')
    make_model(tmp_path, None, name="by_file")
    script = (
        "import pathlib, sys\n"
        "from naiad.backends.catalog import Catalog\n"
        "from naiad.config.resolving.resolve import resolve\n"
        f"for name in ('m', 'by_file'): resolve(pathlib.Path({str(tmp_path)!r}) / name, backends=Catalog())\n"
        "assert 'importlib.metadata' not in sys.modules\n"
    )
    subprocess.run(
        [sys.executable, "-c", script], check=True, env={"PYTHONPATH": ":".join(sys.path)}
    )


def backend_folder(root: pathlib.Path, name: str) -> pathlib.Path:
    (root / name).mkdir(parents=True)
    (root / name / "model.py").touch()
    return root


def test_a_folder_with_a_model_py_is_a_backend(tmp_path: pathlib.Path) -> None:
    for name in ("vllm", "v2.1-beta", "python", "tensorrt", ".hidden"):
        backend_folder(tmp_path, name)
    (tmp_path / "libtriton_other.so").touch()
    (tmp_path / "other").mkdir()
    found = Catalog(tmp_path)
    assert found.names_in_directory() == ["v2.1-beta", "vllm"]
    assert [entry.name for entry in found] == [
        "tensorflow",
        "tensorrt",
        "onnxruntime",
        "openvino",
        "pytorch",
        "caffe2",
        "python",
        "dali",
        "fil",
        "v2.1-beta",
        "vllm",
    ]
    vllm = Registry(clock=ManualClock(), catalog=found).get("vllm")
    assert type(vllm) is PythonBackend, "the folder goes before the server's own of that name"
    assert vllm.name == "vllm"
    tensorrt = found.find("tensorrt")
    assert tensorrt is not None
    assert tensorrt.formats, "Triton's own folder of that name is not a backend based on Python"


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../vllm", "/", "a/vllm", "vllm/", "vllm\0", "x" * 300, "vllm\n"]
)
def test_a_name_of_a_config_never_leads_out_of_the_directory(
    tmp_path: pathlib.Path, name: str
) -> None:
    backend_folder(tmp_path / "backends", "vllm")
    backend_folder(tmp_path / "backends" / "a", "vllm")
    (tmp_path / "model.py").touch()
    assert Catalog(tmp_path / "backends").find(name) is None


def test_the_folder_of_a_backend_is_below_the_directory(tmp_path: pathlib.Path) -> None:
    assert Catalog(tmp_path).folder("onnxruntime") == tmp_path / "onnxruntime"
    assert Catalog(tmp_path).folder("../x") is None
    assert Catalog().folder("onnxruntime") is None


def test_a_directory_that_does_not_exist_has_no_backends(tmp_path: pathlib.Path) -> None:
    assert Catalog(tmp_path / "gone").names_in_directory() == []
    assert Catalog(tmp_path / "gone").find("greeting") is None
    vllm = Registry(clock=ManualClock(), catalog=Catalog(tmp_path / "gone")).get("vllm")
    assert isinstance(vllm, VllmBackend), "the server's own"
