"""The command `naiad-operator convert`: turns KServe's InferenceServices into Naiad's, and lists the fields that do not fit. Without a cluster.

A field is moved or it is listed: what no rule here takes out of the manifest is reported with its path.
"""

import argparse
import collections.abc
import copy
import pathlib
import re
import sys
import typing

from naiad_operator.api import document, names, service, yaml_text
from naiad_operator.errors import InvalidSpec, Problem

KSERVE_GROUP = "serving.kserve.io/"

_Fields = dict[str, typing.Any]

_SAME = (
    "affinity",
    "imagePullSecrets",
    "nodeSelector",
    "priorityClassName",
    "runtimeClassName",
    "serviceAccountName",
    "terminationGracePeriodSeconds",
    "tolerations",
    "topologySpreadConstraints",
)
"""Fields of KServe's predictor that have the same name and meaning here."""

_ADVICE = {
    "annotations": "write those that pods need in spec.annotations; those of KServe and Knative have no effect here",
    "canaryTrafficPercent": "with a Gateway, write the other models or image and the weight in spec.canary",
    "containerConcurrency": "the server queues requests: set max_queue_delay or queue limits in config.pbtxt",
    "batcher": "the server batches itself: write dynamic_batching in config.pbtxt",
    "runtimeVersion": "it names a version of another server: set predictor.image to choose Naiad's",
    "image": "another server's image: set predictor.image to choose Naiad's",
    "scaleMetric": "write your own metric in predictor.autoscaling.metrics",
    "storage": "write model.storageUri, and the Secret's name in model.storage.secretName",
    "transformer": "write an ensemble or a Python model with BLS",
    "volumeMounts": "write the mount in predictor.podTemplate",
    "volumes": "write the volume in predictor.podTemplate",
}
_NO_COUNTERPART = "there is no such field in Naiad: leave it out, or write it in predictor.podTemplate when it is a field of pods"

_AZURE = re.compile(r"https://([^./]+)\.blob\.core\.windows\.net/(.+)")
_GPU = "nvidia.com/gpu"
_SLICE = "nvidia.com/mig-"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    parser.add_argument(
        "-f",
        "--file",
        required=True,
        metavar="FILE",
        help="a file with KServe InferenceServices, - for standard input",
    )


def run(options: argparse.Namespace) -> int:
    """Converts a file: services go to standard output, what did not fit to standard error.

    Returns:
        The exit status: 0 when each service is valid, though fields may be listed; else 1.
    """
    name = "<stdin>" if options.file == "-" else options.file
    try:
        text = sys.stdin.read() if options.file == "-" else pathlib.Path(name).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        _say(f"{name}: cannot be read: {error}")
        return 1
    made: list[_Fields] = []
    wrong = 0
    for entry in document.read(text):
        if isinstance(entry, document.Unreadable):
            wrong += 1
            _say(f"{name}:{entry.line}: {entry.message}")
        elif is_kserve(entry.value):
            result, notes = convert(entry.value)
            made.append(result)
            for note in notes:
                _say(f"{name}:{entry.line(note.path)}: {note}")
            problems = _problems(result)
            wrong += len(problems)
            for problem in problems:
                _say(f"the result needs an edit: {problem}")
    if made:
        sys.stdout.write(yaml_text.write(made))
    elif not wrong:
        wrong = 1
        _say(f"{name}: nothing to convert: no InferenceService of KServe (serving.kserve.io)")
    return 1 if wrong else 0


def is_kserve(manifest: typing.Any) -> bool:
    """Whether a manifest is an InferenceService of KServe."""
    if not isinstance(manifest, dict) or manifest.get("kind") != names.KIND:
        return False
    return str(manifest.get("apiVersion")).startswith(KSERVE_GROUP)


def convert(manifest: collections.abc.Mapping[str, typing.Any]) -> tuple[_Fields, list[Problem]]:
    """Naiad's InferenceService for KServe's, and what did not fit, by its path in the manifest.

    Args:
        manifest: an InferenceService of serving.kserve.io; it is not changed.
    """
    rest = copy.deepcopy(dict(manifest))
    notes: list[Problem] = []
    for field in ("apiVersion", "kind", "status"):
        rest.pop(field, None)
    source = _part(rest, "metadata")
    metadata = {key: source.pop(key) for key in ("name", "namespace", "labels") if key in source}
    rest["metadata"] = {
        key: value for key, value in source.items() if key == "annotations" and value
    }
    predictor = _part(_part(rest, "spec"), "predictor")
    kind = next((key for key in ("triton", "model") if isinstance(predictor.get(key), dict)), "")
    container = _part(predictor, kind) if kind else {}
    path = f"spec.predictor.{kind}"
    result: _Fields = {"model": _model(container, path, notes)}
    result |= _resources(container)
    result |= {key: container.pop(key) for key in ("args", "env", "envFrom") if key in container}
    result |= {key: predictor.pop(key) for key in _SAME if key in predictor}
    result |= _replicas(predictor, notes)
    if container.get("protocolVersion") in {"v2", "grpc-v2"}:
        del container["protocolVersion"]
    if container.get("name") == "kserve-container":
        del container["name"]
    notes += _left(rest, "")
    converted = {
        "apiVersion": names.API_VERSION,
        "kind": names.KIND,
        "metadata": metadata,
        "spec": {"predictor": result},
    }
    return converted, notes


def _model(container: _Fields, path: str, notes: list[Problem]) -> _Fields:
    uri = container.get("storageUri")
    model_format = _part(container, "modelFormat").get("name")
    if model_format == "triton":
        del container["modelFormat"]
    elif model_format is not None:
        message = f"{model_format!r} does not say a server here: storageUri must be a folder with one folder per model, NAME/1/FILE"
        notes.append(Problem(f"{path}.modelFormat", message))
        del container["modelFormat"]
    if not isinstance(uri, str):
        return {}
    azure = _AZURE.fullmatch(uri)
    if azure:
        uri = f"as://{azure[1]}/{azure[2]}"
    elif not uri.startswith(("s3://", "gs://", "pvc://")):
        message = f"{uri} is in no store that Naiad reads: copy the models to s3://, gs://, as:// or pvc:// and write that in model.storageUri"
        notes.append(Problem(f"{path}.storageUri", message))
        del container["storageUri"]
        return {}
    del container["storageUri"]
    return {"storageUri": uri}


def _resources(container: _Fields) -> _Fields:
    """The accelerator and the resources without it: a service of KServe without a GPU computes on the CPU."""
    accelerator: _Fields = {"type": "none"}
    kept: _Fields = {}
    for part in ("requests", "limits"):
        amounts = _part(_part(container, "resources"), part)
        for key in [key for key in amounts if key == _GPU or key.startswith(_SLICE)]:
            if not str(amounts[key]).isdecimal():
                continue
            count = int(amounts.pop(key))
            if count and key == _GPU:
                accelerator = {"type": "gpu", "count": count}
            elif count:
                profile = key.removeprefix(_SLICE)
                accelerator = {"type": "mig", "profile": profile, "count": count}
        if amounts:
            kept[part] = dict(amounts)
            amounts.clear()
    return {"accelerator": accelerator} | ({"resources": kept} if kept else {})


def _replicas(predictor: _Fields, notes: list[Problem]) -> _Fields:
    """The number of pods: KServe scales when maxReplicas is above minReplicas, whose default is 1."""
    low, high = predictor.get("minReplicas", 1), predictor.get("maxReplicas", 0)
    if not isinstance(low, int) or not isinstance(high, int):
        return {}
    predictor.pop("minReplicas", None)
    predictor.pop("maxReplicas", None)
    if low == 0:
        low = 1
        message = "became 1: for no pods without requests, write autoscaling.class: keda and minReplicas: 0 (docs/operator.md)"
        notes.append(Problem("spec.predictor.minReplicas", message))
    if high <= low:
        return {"replicas": low}
    name, target = "cpu", 80
    if predictor.get("scaleMetric") in {"cpu", "memory"}:
        name, target = predictor.pop("scaleMetric"), predictor.pop("scaleTarget", target)
    else:
        message = "the pods scale by 80 % CPU: write autoscaling.class: keda to scale by the time in the queue"
        notes.append(Problem("spec.predictor.maxReplicas", message))
    utilization = {"type": "Utilization", "averageUtilization": target}
    metric = {"type": "Resource", "resource": {"name": name, "target": utilization}}
    scaling = {"class": "hpa", "minReplicas": low, "maxReplicas": high, "metrics": [metric]}
    return {"autoscaling": scaling}


def _left(value: typing.Any, path: str) -> collections.abc.Iterator[Problem]:
    """The fields that no rule took; a field with advice is reported as a whole."""
    name = path.rpartition(".")[2]
    if isinstance(value, dict) and name not in _ADVICE:
        for key, child in value.items():
            yield from _left(child, f"{path}.{key}" if path else str(key))
    elif value not in (None, [], {}):
        yield Problem(path, f"not converted: {_ADVICE.get(name, _NO_COUNTERPART)}")


def _problems(result: _Fields) -> collections.abc.Sequence[Problem]:
    try:
        service.parse(result)
    except InvalidSpec as error:
        return error.problems
    return ()


def _part(fields: _Fields, name: str) -> _Fields:
    """A mapping inside another one; an empty one when there is none."""
    part = fields.get(name)
    return part if isinstance(part, dict) else {}


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
