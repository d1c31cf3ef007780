"""`ModelConfig`: what a model's `auto_complete_config` may look at and fill in (row 15.27)."""

import json
from typing import Any

_INPUT_KEYS = ("name", "data_type", "dims", "optional", "allow_ragged_batch")
_OUTPUT_KEYS = ("name", "data_type", "dims")
_EXPECTED = {
    "input": "'name', 'data_type', 'dims' and 'optional'",
    "output": "'name', 'data_type' and 'dims'",
}
"""As Triton's sentence lists them."""


class ModelConfig:
    """A model's config, from its JSON text, as `GET …/config` shows it."""

    def __init__(self, model_config: str) -> None:
        self._model_config: dict[str, Any] = json.loads(model_config)

    def as_dict(self) -> "dict[str, Any]":
        """The config, as it is so far."""
        return self._model_config

    def set_max_batch_size(self, max_batch_size: int) -> None:
        """Set the largest batch; it can only grow.

        Raises:
            ValueError: the config says more.
        """
        given = self._model_config["max_batch_size"]
        if given > max_batch_size:
            raise ValueError(
                f"configuration specified max_batch_size {given}, but in auto-complete-config function for model '{self._name}' "
                f"specified max_batch_size {max_batch_size}"
            )
        self._model_config["max_batch_size"] = max_batch_size

    def set_dynamic_batching(self) -> None:
        """Batch dynamically, unless it does already.

        Raises:
            ValueError: the config asks for another scheduler.
        """
        for other in ("sequence_batching", "ensemble_scheduling"):
            if other in self._model_config:
                raise ValueError(
                    f"Configuration specified scheduling_choice as '{other}', but auto-complete-config function for model "
                    f"'{self._name}' tries to set scheduling_choice as 'dynamic_batching'"
                )
        self._model_config.setdefault("dynamic_batching", {})

    def add_input(self, input: "dict[str, Any]") -> None:  # noqa: A002 - models may pass it by this name
        """Add an input, or hold it against the one of that name.

        Args:
            input: name, data_type and dims; optional and allow_ragged_batch may follow.

        Raises:
            ValueError: another property, a missing one, or the config says otherwise.
        """
        self._add("input", input, _INPUT_KEYS)

    def add_output(self, output: "dict[str, Any]") -> None:
        """Add an output, or hold it against the one of that name.

        Args:
            output: name, data_type and dims.

        Raises:
            ValueError: another property, a missing one, or the config says otherwise.
        """
        self._add("output", output, _OUTPUT_KEYS)

    def set_model_transaction_policy(self, transaction_policy_dict: "dict[str, Any]") -> None:
        """Say whether the model is decoupled.

        Raises:
            ValueError: another property than `decoupled`, or the config says otherwise.
        """
        for key in transaction_policy_dict:
            if key != "decoupled":
                raise ValueError(
                    f"model transaction property in auto-complete-config function for model '{self._name}' contains property "
                    f"other than 'decoupled'. It is '{key}'."
                )
        policy = self._model_config.setdefault("model_transaction_policy", {})
        if "decoupled" in transaction_policy_dict:
            wanted = transaction_policy_dict["decoupled"]
            if policy.get("decoupled", wanted) != wanted:
                raise ValueError(
                    "trying to change decoupled property in auto-complete-config for model '{}', which is already "
                    "set to '{}'.".format(self._name, policy["decoupled"])
                )
            policy["decoupled"] = wanted

    @property
    def _name(self) -> str:
        return str(self._model_config["name"])

    def _add(self, side: str, tensor: "dict[str, Any]", keys: "tuple[str, ...]") -> None:
        what = "{} '{}'".format(side, tensor["name"]) if "name" in tensor else side
        where = f"in auto-complete-config function for model '{self._name}'"
        for key in tensor:
            if key not in keys:
                raise ValueError(
                    f"{what} {where} contains property other than {_EXPECTED[side]}. It is '{key}'."
                )
        for key in ("name", "data_type", "dims"):
            if key not in tensor:
                raise ValueError(f"{what} {where} is missing '{key}' property.")
        for known in self._model_config.setdefault(side, []):
            if known["name"] == tensor["name"]:
                self._compare(side, known, tensor)
                known.update(tensor)
                return
        self._model_config[side].append(dict(tensor))

    def _compare(self, side: str, known: "dict[str, Any]", tensor: "dict[str, Any]") -> None:
        name = tensor["name"]
        if known["data_type"] not in ("TYPE_INVALID", tensor["data_type"]):
            raise ValueError(
                "unable to load model '{}', configuration expects datatype {} for {} '{}', model provides {}".format(
                    self._name, known["data_type"], side, name, tensor["data_type"]
                )
            )
        if known["dims"] and list(known["dims"]) != list(tensor["dims"]):
            raise ValueError(
                "model '{}', tensor '{}': the model expects dims {} but the model configuration specifies dims {}".format(
                    self._name, name, tensor["dims"], known["dims"]
                )
            )
        for key in ("optional", "allow_ragged_batch"):
            if key in known and key in tensor and known[key] != tensor[key]:
                raise ValueError(
                    f"model '{self._name}', tensor '{name}': the model expects {key} {tensor[key]} but the model configuration specifies {key} {known[key]}"
                )
