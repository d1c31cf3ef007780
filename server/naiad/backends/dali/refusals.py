"""Why a pipeline that can be read is not run. Pure."""

from naiad.errors import InferenceError, invalid


def gpu_needed(model: str, needing: str) -> InferenceError:
    """The error of a pipeline for GPUs whose instance is on the CPU."""
    return invalid(
        f"unable to load model '{model}': its {needing} needs a GPU, and its instances are of KIND_CPU: write device=\"cpu\" in the pipeline, or "
        "serve it with kind: KIND_GPU on a machine that has one"
    )


def refused(model: str, reason: str) -> InferenceError:
    """The error of a pipeline that is never run."""
    return invalid(f"unable to load model '{model}': its pipeline is not served: {reason}")
