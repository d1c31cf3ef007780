"""The model that explains the predictions of another one, which its config names: the rule, and the words of what is refused (docs/kserve-v1.md). Pure."""

from naiad.config.model_config import ModelConfig

EXPLAINER = "naiad.explainer"
"""The parameter of a config that names it."""

FIELD = ("parameters", EXPLAINER, "string_value")
"""The path of its name in a config."""


def explainer_of(config: ModelConfig) -> str:
    """Its name; "" if there is none."""
    return config.parameters.get(EXPLAINER, "")


def of_model(model: str, reason: str) -> str:
    """Why `:explain` of a model is refused: what is wrong with its explainer."""
    return f"the explainer of model '{model}': {reason}"


def decoupled(name: str) -> str:
    """Why a model cannot respond in KServe's v1, which has one response to a request."""
    return (
        f"KServe's v1 doesn't support models with decoupled transaction policy: '{name}' may answer many times. Use "
        f"/v2/models/{name}/generate_stream, or gRPC's ModelStreamInfer"
    )
