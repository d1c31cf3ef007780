import importlib.machinery
import os
import pathlib
import pickle
import sys
import threading
import types

import pytest
from typing_extensions import override

from naiad.core import datatypes
from tests.server.backends.configs import Instance, Loaded, inference, spec, tensor, values
from tests.server.backends.python.models import load, make_instance, python_config, write

TELLING = """
    import numpy as np
    import triton_python_backend_utils as pb_utils
    {imports}

    class TritonPythonModel:
        def execute(self, requests):
            {lazily}
            return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.array([{what}], object))])]
"""


def telling(what: str, *, imports: str = "", lazily: str = "pass") -> str:
    """A model that answers with an expression."""
    return TELLING.format(what=what, imports=imports, lazily=lazily)


def loaded(folder: pathlib.Path, files: dict[str, str], *, version: int = 1) -> Loaded:
    config = python_config(outputs=[spec("OUT", datatypes.BYTES, ())])
    return load(write(folder, files), config, version=version)


def said(instance: Instance) -> str:
    request = inference(tensor("IN", [[0, 0]], datatypes.FP32))
    (response,) = instance.execute([request]).responses
    assert response is not None
    (answer,) = values(response)["OUT"]
    return str(answer.decode())


def tell(folder: pathlib.Path, files: dict[str, str]) -> str:
    return said(make_instance(loaded(folder, files)))


@pytest.mark.parametrize(
    ("imports", "what"),
    [
        ("import helper", "helper.WHO"),
        ("from helper import WHO", "WHO"),
        ("from . import helper", "helper.WHO"),
        ("from .helper import WHO", "WHO"),
        ("import helper as other", "other.WHO"),
    ],
)
def test_a_module_beside_the_model_is_found_however_it_is_imported(
    tmp_path: pathlib.Path, imports: str, what: str
) -> None:
    files = {"1/helper.py": "WHO = 'beside'\n", "1/model.py": telling(what, imports=imports)}
    assert tell(tmp_path, files) == "beside"


def test_the_version_folder_comes_before_the_model_folder(tmp_path: pathlib.Path) -> None:
    files = {
        "1/helper.py": "WHO = 'version'\n",
        "helper.py": "WHO = 'model'\n",
        "shared.py": "WHO = 'model'\n",
        "1/model.py": telling("helper.WHO + shared.WHO", imports="import helper, shared"),
    }
    assert tell(tmp_path, files) == "versionmodel"


def test_packages_beside_the_model_import_each_other_in_every_way(tmp_path: pathlib.Path) -> None:
    files = {
        "1/kit/__init__.py": "from kit.inner import A\n",
        "1/kit/inner.py": "import helper\nfrom . import leaf\nimport kit.leaf\nA = helper.WHO + leaf.B + kit.leaf.B\n",
        "1/kit/leaf.py": "B = 'b'\n",
        "1/helper.py": "WHO = 'h'\n",
        "1/model.py": telling("kit.A + leaf.B", imports="import kit.leaf; from kit import leaf"),
    }
    assert tell(tmp_path, files) == "hbbb"


def test_two_models_may_have_a_module_of_the_same_name_also_when_they_import_it_late(
    tmp_path: pathlib.Path,
) -> None:
    instances = [
        make_instance(
            loaded(
                tmp_path / name,
                {
                    "1/helper.py": f"WHO = '{name}'\n",
                    "1/model.py": telling("helper.WHO", lazily="import helper"),
                },
            )
        )
        for name in ("first", "second")
    ]
    heard: list[str] = []
    for instance in (*instances, *reversed(instances)):
        thread = threading.Thread(target=lambda each=instance: heard.append(said(each)))
        thread.start()
        thread.join()
    assert heard == ["first", "second", "second", "first"]


def test_versions_of_a_model_do_not_share_modules(tmp_path: pathlib.Path) -> None:
    source = telling("helper.WHO", imports="import helper")
    files = {
        "1/helper.py": "WHO = 'one'\n",
        "2/helper.py": "WHO = 'two'\n",
        "1/model.py": source,
        "2/model.py": source,
    }
    one, two = (loaded(tmp_path, files, version=version) for version in (1, 2))
    assert (said(make_instance(two)), said(make_instance(one))) == ("two", "one")


def test_the_standard_library_cannot_be_shadowed_and_data_folders_are_not_modules(
    tmp_path: pathlib.Path,
) -> None:
    files = {
        "1/json.py": "raise RuntimeError('shadowed')\n",
        "1/onnx/weights.txt": "",
        "1/plain/inside.py": "WHO = 'namespace'\n",
        "1/model.py": telling(
            "json.dumps([1]) + str(hasattr(onnx, 'ModelProto')) + plain.inside.WHO",
            imports="import json, onnx, plain.inside",
        ),
    }
    assert tell(tmp_path, files) == "[1]Truenamespace"


def test_objects_of_a_models_classes_can_be_pickled(tmp_path: pathlib.Path) -> None:
    files = {
        "1/thing.py": "class Thing:\n    value = 'kept'\n",
        "1/model.py": telling(
            "pickle.loads(pickle.dumps(thing.Thing())).value", imports="import pickle, thing"
        ),
    }
    assert tell(tmp_path, files) == "kept"


def test_closing_a_model_leaves_nothing_of_it_behind(tmp_path: pathlib.Path) -> None:
    path, finders, modules = list(sys.path), list(sys.meta_path), set(sys.modules)
    files = {"1/helper.py": "", "1/model.py": telling("'x'", imports="import helper")}
    model = loaded(tmp_path, files)
    assert str(tmp_path / "1") in sys.path
    model.close()
    assert sys.path == path
    assert sys.meta_path == finders
    assert {
        name for name in set(sys.modules) - modules if name.startswith("naiad_models.")
    } == set()


def test_a_repository_is_not_written_to(tmp_path: pathlib.Path) -> None:
    files = {"1/helper.py": "", "1/model.py": telling("'x'", imports="import helper")}
    tell(tmp_path, files)
    assert sorted(path.name for path in (tmp_path / "1").iterdir()) == ["helper.py", "model.py"]


def test_unpickling_finds_modules_by_their_bare_name(tmp_path: pathlib.Path) -> None:
    files = {
        "1/bare_module_of_a_model.py": "class Net:\n    pass\n",
        "1/model.py": telling("'x'"),
    }
    model = loaded(tmp_path, files)
    data = b"cbare_module_of_a_model\nNet\n."
    assert pickle.loads(data).__name__ == "Net"
    del sys.modules["bare_module_of_a_model"]
    model.close()


class _Untouchable(importlib.machinery.FileFinder):
    @override
    def invalidate_caches(self) -> None:
        raise AssertionError("not ours")


def test_loading_a_model_leaves_what_others_import_alone(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # importlib.invalidate_caches() walks through all of it, and breaks when another thread imports meanwhile
    for place in ("/elsewhere", str(tmp_path / "model_2")):
        monkeypatch.setitem(sys.path_importer_cache, place, _Untouchable(place))
    assert tell(tmp_path / "model", {"1/model.py": telling("'x'")}) == "x"


def test_a_file_that_is_newer_than_the_last_look_into_the_folder_is_found(
    tmp_path: pathlib.Path,
) -> None:
    tell(tmp_path, {"1/part/__init__.py": "", "1/model.py": telling("'x'", imports="import part")})
    folder = tmp_path / "1" / "part"
    seen = folder.stat()
    files = {
        "1/part/more.py": "WHO = 'new'\n",
        "1/model.py": telling("more.WHO", imports="from part import more"),
    }
    write(tmp_path, files)
    os.utime(folder, ns=(seen.st_atime_ns, seen.st_mtime_ns))  # within the clock's grain
    assert tell(tmp_path, files) == "new"


def test_models_are_imported_one_after_another(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    meeting = types.ModuleType("meeting_of_models")
    vars(meeting).update(barrier=threading.Barrier(2, timeout=0.1), met=[])
    monkeypatch.setitem(sys.modules, meeting.__name__, meeting)
    source = """
        import threading
        import meeting_of_models as meeting
        try:
            meeting.barrier.wait()
            meeting.met.append(True)
        except threading.BrokenBarrierError:
            meeting.barrier.reset()

        class TritonPythonModel:
            def execute(self, requests):
                return []
    """
    threads = [
        threading.Thread(target=loaded, args=(tmp_path / name, {"1/model.py": source}))
        for name in ("a", "b")
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert vars(meeting)["met"] == []
