"""Copies of the good models: with a file that is cut off, changed, empty, a folder, or a pickle that would run code, or with another config."""

import os
import pathlib
import pickle
import random
import shutil
from typing import Any

from typing_extensions import override

from tests.frameworks.broken.bad_graphs import GRAPHS
from tests.frameworks.broken.good_models import FRAMEWORKS
from tests.frameworks.broken.serving import framework_of, is_tensorflow

CUTS = (0.1, 0.5, -1)
"""Where a file is cut off: parts of it, bytes from its end."""

OF_ANY_BYTES = {
    "openvino_weights": ("empty", "folder", "cut_0_5", "flipped"),
    "savedmodel_weights": ("empty", "cut_0_5", "flipped"),
}
"""Files without a form that would be seen: what is not listed shows no more, and takes a framework that loads."""

PROCESS = 'parameters { key: "naiad.host" value { string_value: "process" } }\n'


class RunsCode:
    """Makes a folder when it is unpickled."""

    def __init__(self, path: pathlib.Path) -> None:
        self.path = path

    @override
    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.path),)


def broken(data: bytes, proof: pathlib.Path, seed: str) -> dict[str, bytes | None]:
    """The contents of the file, by what is wrong with it; None is a folder."""
    found: dict[str, bytes | None] = {"empty": b"", "folder": None, "pickle": pickle.dumps(RunsCode(proof))}  # fmt: skip
    for cut in CUTS:
        end = int(len(data) * cut) if isinstance(cut, float) else cut
        found[f"cut_{cut}".replace("-", "m").replace(".", "_")] = data[:end]
    chosen = random.Random(seed)
    changed = bytearray(data)
    for _ in range(8):
        changed[chosen.randrange(len(changed))] ^= 1 << chosen.randrange(8)
    found["flipped"] = bytes(changed)
    return {how: found[how] for how in OF_ANY_BYTES.get(seed, tuple(found))}


def write_all(folders: tuple[pathlib.Path, pathlib.Path], proof: pathlib.Path) -> None:
    """Write every copy. A model with changed bytes, on which a framework may end, runs in a process."""
    for name, good in FRAMEWORKS.items():
        folder = folders[is_tensorflow(name)]
        whole = folder / f"{name}-good"
        for how, content in broken((whole / "1" / good.file).read_bytes(), proof, name).items():
            copy = shutil.copytree(whole, folder / f"{name}-{how}")
            path = copy / "1" / good.file
            path.unlink()
            if content is None:
                path.mkdir()
            else:
                path.write_bytes(content)
            if how == "flipped" and "naiad.host" not in good.config:
                (copy / "config.pbtxt").write_text(good.config + PROCESS)
    for name, case in GRAPHS.items():
        if case.model is None:
            of = framework_of(name)
            whole = folders[is_tensorflow(name)] / f"{of}-good"
            copy = shutil.copytree(whole, whole.with_name(name))
            (copy / "config.pbtxt").write_text(case.edit(FRAMEWORKS[of].config))
