import os
import pathlib
import time

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    """Responds with CUDA_VISIBLE_DEVICES, the device's number and the process id of the instance that took the request."""

    def initialize(self, args):
        self.number = args["model_instance_device_id"]

    def execute(self, requests):
        # No request ends before every instance has one, so that each answers one.
        folder = pathlib.Path(os.environ["MEETING"])
        folder.mkdir(exist_ok=True)
        (folder / str(os.getpid())).touch()
        slices = os.environ["NVIDIA_VISIBLE_DEVICES"].split(",")
        deadline = time.monotonic() + 8
        while len(list(folder.iterdir())) < len(slices) and time.monotonic() < deadline:
            time.sleep(0.01)
        values = [os.environ["CUDA_VISIBLE_DEVICES"], self.number, str(os.getpid())]
        said = np.array(values, dtype=object)
        return [pb_utils.InferenceResponse([pb_utils.Tensor("SAID", said)]) for _ in requests]
