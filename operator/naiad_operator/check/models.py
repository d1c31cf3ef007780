"""Checks models: Python packages in a form that pip refuses, and readiness that waits for a model that is not loaded."""

import re
import typing

from naiad_operator.api.manifests.unvalidated import part
from naiad_operator.check.finding import Findings, error, texts, warning

_ONE_EQUALS_SIGN = re.compile(r"([A-Za-z0-9][\w.-]*(?:\[[^\]]*\])?)\s*=\s*([^=\s].*)", re.ASCII)


def findings(predictor: typing.Any, path: str) -> Findings:
    """What is wrong with the models of a predictor, or of a canary with the fields of its predictor.

    Args:
        predictor: the part of the spec, with defaults.
        path: the path of the part that has the model.
    """
    model = part(predictor, "model")
    for index, requirement in enumerate(texts(model.get("pythonRequirements"))):
        match = _ONE_EQUALS_SIGN.fullmatch(requirement)
        if match:
            message = f"is {requirement!r}, which pip refuses: write {match[1]}=={match[2]}"
            yield error(f"{path}.model.pythonRequirements[{index}]", message)
    load = part(model, "load")
    loaded = texts(load.get("models"))
    if load.get("mode") != "explicit" or "*" in loaded:
        return
    for name in texts(part(predictor, "readiness").get("models")):
        if name not in loaded:
            message = f"does not name model {name}, for which readiness.models waits: no pod would be ready until a client has loaded it, and clients reach only pods that are: write it here, or leave it out there"
            yield warning(f"{path}.model.load.models", message)
