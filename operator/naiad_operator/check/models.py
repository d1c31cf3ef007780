"""Checks models: Python packages in a form that pip refuses, and models that are waited or asked for and are not loaded."""

import re
import typing

from naiad_operator.api.manifests.unvalidated import part
from naiad_operator.check.finding import Findings, error, texts, warning

_MOST_NAMES = 8
_MODEL_NAME = {"--model_name", "--model-name"}
"""The argument of the program, where it is written by hand."""
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


def asked_for(spec: typing.Any) -> Findings:
    """Transformers and explainers that ask the servers for a model that none of them loads.

    Args:
        spec: with defaults.
    """
    load = part(spec, "predictor", "model", "load")
    loaded = texts(load.get("models"))
    if load.get("mode") != "explicit" or not loaded or "*" in loaded:
        return
    listed = ", ".join(loaded[:_MOST_NAMES]) + (", …" if len(loaded) > _MOST_NAMES else "")
    for component in ("transformer", "explainer"):
        found = part(spec, component)
        name = found.get("modelName")
        given = {one.partition("=")[0] for one in texts(found.get("args"))}
        if not found or given & _MODEL_NAME or (isinstance(name, str) and name in loaded):
            continue
        if name is None:
            message = f"is not set, so that the program gets the name of the service as --model_name, and the servers load {listed}: write the name of the model that it asks for"
        else:
            message = f"is {name}, which the servers do not load: write one of spec.predictor.model.load.models ({listed}) here, or add it there"
        yield warning(f"spec.{component}.modelName", message)
