"""Completes its own configuration; the parameter `how` in config.pbtxt picks the way."""

import json
from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils  # type: ignore[import-not-found]  # the server brings it


class TritonPythonModel:
    """An identity whose config.pbtxt leaves things out."""

    @staticmethod
    def auto_complete_config(auto_complete_model_config: Any) -> Any:
        """Adds what the config leaves out, or does what a broken model does."""
        config = auto_complete_model_config.as_dict()
        how = config["parameters"].get("how", {"string_value": "good"})["string_value"]
        if how == "wrong-return":
            return "no config"
        if how == "raise":
            raise ValueError("completion went wrong on purpose")
        if how == "conflict":
            auto_complete_model_config.add_input(
                {"name": "IN", "data_type": "TYPE_INT8", "dims": [3]}
            )
            return auto_complete_model_config
        if how == "no-name":
            auto_complete_model_config.add_input({"data_type": "TYPE_FP32", "dims": [3]})
            return auto_complete_model_config
        auto_complete_model_config.set_max_batch_size(4)
        auto_complete_model_config.add_input(
            {"name": "IN", "data_type": "TYPE_FP32", "dims": [3], "optional": True}
        )
        auto_complete_model_config.add_output(
            {"name": "OUT", "data_type": "TYPE_FP32", "dims": [3]}
        )
        auto_complete_model_config.set_dynamic_batching()
        return auto_complete_model_config

    def initialize(self, args: dict[str, str]) -> None:
        """Checks that the completed configuration is what it gets."""
        self.batch = json.loads(args["model_config"])["max_batch_size"]

    def execute(self, requests: list[Any]) -> list[Any]:
        """Identity, or zeros where the optional input is absent."""
        responses = []
        for request in requests:
            given = pb_utils.get_input_tensor_by_name(request, "IN")
            values = np.zeros((1, 3), np.float32) if given is None else given.as_numpy()
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", values)]))
        return responses
