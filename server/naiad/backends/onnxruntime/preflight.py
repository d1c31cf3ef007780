"""What loading an ONNX model would refuse beyond its config and its graph, seen without a session: for `naiad check`."""

import collections.abc
import importlib.util
import pathlib

from naiad.backends.backend import instance_specs
from naiad.backends.filled_sizes import fill_of
from naiad.backends.onnxruntime import locales
from naiad.backends.onnxruntime.plan import CPU, CUDA, SessionPlan, plan_session, require_providers
from naiad.backends.onnxruntime.plugin import PLUGIN
from naiad.config.document import Document
from naiad.config.model_config import ModelConfig
from naiad.config.problem import Problem, Scope
from naiad.config.refused import problem_of
from naiad.errors import InferenceError


def preflight(
    config: ModelConfig,
    *,
    document: Document,
    model_dir: pathlib.Path,
    versions: collections.abc.Sequence[int],
    options: collections.abc.Mapping[str, str],
    host: str,
) -> list[Problem]:
    """See `Preflight`: settings that no session could have, and accelerators and locales that this machine lacks."""
    problems: dict[Problem, None] = {}
    for kind, device_id in {(spec.kind, spec.device_id): None for spec in instance_specs(config)}:
        try:
            plan = plan_session(config, options, kind=kind, device_id=device_id)
            fill_of(config, options)
        except InferenceError as error:
            problems[problem_of(error, document)] = None
            continue
        try:
            _require_installed(plan, config.name)
        except InferenceError as error:
            problems[problem_of(error, document, scope=Scope.HERE)] = None
    for version in versions:
        path = PLUGIN.model_file(model_dir / str(version), config.default_model_filename)
        for lacking in locales.faults(path, config.name):
            problems[problem_of(lacking, document, path=path, scope=Scope.HERE)] = None
    return list(problems)


def _require_installed(plan: SessionPlan, model: str) -> None:
    """`require_providers` for what needs no GPU; onnxruntime is imported only for a plan that needs more than its CPU provider."""
    needed = {provider.name for provider in plan.providers}
    if needed == {CPU} or CUDA in needed or importlib.util.find_spec("onnxruntime") is None:
        return
    import onnxruntime  # noqa: PLC0415 - see above

    require_providers(
        plan,
        onnxruntime.get_available_providers(),
        model=model,
        version=onnxruntime.__version__,
    )
