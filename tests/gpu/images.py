"""The GPU check of DALI pipelines: JPEG files decoded on the GPU beside the same on the CPU."""

from typing import Any

import numpy as np

from tests.gpu import repositories
from tests.gpu.bench import Bench, infer
from tests.gpu.repositories import GPU
from tests.reference.process import ServerProcess

Array = np.ndarray[Any, Any]


def dali_pipelines(bench: Bench) -> str:
    """A pipeline whose decoder is on the GPU gives the images of one on the CPU, in batches of 8 by two instances; what is not a JPEG file fails alone."""
    config = 'backend: "dali"\noutput { name: "IMAGE" dims: [ 64, 64, 3 ] }\n'
    on_cpu = config + "instance_group { kind: KIND_CPU }\n"
    repositories.model(bench.models, "cpu", on_cpu, "dali.py", repositories.IMAGES % "cpu")
    on_gpu = config + GPU % 2
    repositories.model(bench.models, "gpu", on_gpu, "dali.py", repositories.IMAGES % "mixed")
    file = np.frombuffer(repositories.JPEG, np.uint8)
    with bench.server() as server:
        expected = _images(server, "cpu", file[None]).astype(int)
        away = 0.0
        for count in (1, 8, 3):
            found = _images(server, "gpu", np.broadcast_to(file, (count, file.size)))
            if found.shape != (count, 64, 64, 3):
                raise AssertionError(f"shape {found.shape}, expected {(count, 64, 64, 3)}")
            away = max(away, float(np.abs(found - expected).mean()))
        if away > 2:
            raise AssertionError(
                f"the images differ by {away:.2g} of 255 on average, at most 2 is expected"
            )
        reason = ""
        try:
            _images(server, "gpu", np.arange(90, dtype=np.uint8)[None])
        except RuntimeError as error:
            reason = str(error)
        if "decoders.image" not in reason:
            raise AssertionError(f"DALI's reason is not in the answer: {reason}")
        _images(server, "gpu", file[None])
    return f"differs by {away:.2g} of 255 on average; what is not a JPEG file fails alone"


def _images(server: ServerProcess, model: str, files: Array) -> Array:
    """The images of a model.

    Raises:
        RuntimeError: the server answers with an error.
    """
    return infer(server, model, {"JPEG": files})["IMAGE"]
