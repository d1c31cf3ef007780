"""Everything the operator knows about the server. The operator never imports it; tests/seams compares each constant with the server.

The drain: on SIGTERM a server reports not ready, continues to accept requests for its shutdown delay, then finishes requests in
flight within its exit timeout. It does so by itself, so pods have no preStop hook.
"""

import collections.abc
import dataclasses
import json
import types
import typing

from naiad_operator.api.types.pod import Readiness
from naiad_operator.api.types.spec import Spec
from naiad_operator.errors import InvalidSpec, Problem
from naiad_operator.versions import OWN, Version

OLDEST_VERSION = Version(0, 1, 0)
"""The oldest server that is supported; a server whose version is not known counts as this one."""


class Option(typing.NamedTuple):
    """An option of the server that the operator writes.

    Attributes:
        since: the first version that knows the option. An older server would end with an error message, so it never gets the option.
        field: the field of the service that asks for the option, as in "spec.predictor.model.load". With a server that is too old the
            service is then invalid; without a field, the option is the operator's own default and is left out.
    """

    since: Version
    field: str = ""


_V0_2 = Version(0, 2, 0)

OPTIONS: collections.abc.Mapping[str, Option] = types.MappingProxyType(
    {
        "--model-repository": Option(OLDEST_VERSION),
        "--model-control-mode": Option(OLDEST_VERSION),
        "--load-model": Option(OLDEST_VERSION),
        "--repository-poll-secs": Option(OLDEST_VERSION),
        "--exit-on-error": Option(OLDEST_VERSION),
        # Older servers know the options, but `::` is IPv6 alone there.
        "--http-address": Option(_V0_2),
        "--grpc-address": Option(_V0_2),
        "--http-port": Option(OLDEST_VERSION),
        "--grpc-port": Option(OLDEST_VERSION),
        "--metrics-port": Option(OLDEST_VERSION),
        "--grpc-max-connection-age": Option(OLDEST_VERSION),
        "--shutdown-delay-secs": Option(OLDEST_VERSION),
        "--exit-timeout-secs": Option(OLDEST_VERSION),
        "--auth-token-file": Option(OLDEST_VERSION),
        "--http-base-path": Option(_V0_2, "spec.pathPrefix"),
        "--model-config-override": Option(_V0_2, "spec.predictor.model.overrides"),
        "--readiness-policy": Option(_V0_2, "spec.predictor.readiness"),
        "--python-requirement": Option(_V0_2, "spec.predictor.model.pythonRequirements"),
        "--repository-cache-directory": Option(OLDEST_VERSION),
        "--repository-cache-bytes": Option(OLDEST_VERSION),
    }
)
"""Every option that the operator writes. A new option is a new row with the version of the release that brings it; tests/seams compares the
rows with the options of this release's server and with the recorded list of those of 0.1.0."""

FETCH_FILES = Option(_V0_2, "spec.predictor.model.storageUri")
"""The option --files of `naiad fetch`, which brings the files of a component."""

COMMAND = ("naiad", "serve")
FETCH_COMMAND = ("naiad", "fetch")
CONTAINER = "server"
FETCH_CONTAINER = "fetch-"
"""The beginning of the names of init containers that fetch: a repository each, by its number, or the files of a component."""
FETCH_FILES_CONTAINER = f"{FETCH_CONTAINER}files"

USER = 1000
"""The user of the pods, unless a profile's podSecurityContext says another one."""

LIVE_PATH = "/v2/health/live"
READY_PATH = "/v2/health/ready"
METRICS_PATH = "/metrics"
STATUS_PATH = "/status"
"""On the metrics port: {"models": [{"name", "version", "state", "reason"}]}."""

BACKENDS = frozenset(
    (
        "caffe2",
        "dali",
        "fil",
        "onnxruntime",
        "openvino",
        "python",
        "pytorch",
        "tensorflow",
        "tensorrt",
        "vllm",
    )
)
"""Those that the server itself has; packages bring others."""
EXTRAS = {
    "dali": "dali",
    "fil": "trees",
    "openvino": "openvino",
    "pytorch": "torch",
    "tensorflow": "tensorflow",
    "tensorrt": "tensorrt",
}
"""The extra of naiad that brings the framework of a backend, which the server's image does not have."""

GRPC_SERVICE = "inference.GRPCInferenceService"
GRPC_HEALTH_SERVICE = "grpc.health.v1.Health"

QUEUE_METRIC = "nv_inference_queue_duration_us"
SUCCESS_METRIC = "nv_inference_request_success"
PENDING_METRIC = "nv_inference_pending_request_count"
AVERAGE_QUEUE_METRIC = "nv_inference_avg_queue_time_us"
"""Not a metric of the server: the rule for prometheus-adapter computes it from the two above."""

GRPC_MAX_CONNECTION_AGE_MS = 300_000
"""The maximum age of a gRPC connection. A connection stays with one pod; after this time clients reconnect, so that new pods get load."""

_POLL_SECONDS = 15

STOP_MARGIN_SECONDS = 5
"""The margin between the server's own deadline and the kubelet's."""

TOKEN_FOLDER = "/etc/naiad/auth"  # noqa: S105 - a folder, not a token
TOKEN_FILE = "token"  # noqa: S105 - as above
CREDENTIALS_FOLDER = "/etc/naiad/credentials"
REPOSITORIES_FOLDER = "/mnt/repositories"
CACHE_FOLDER = "/var/cache/naiad"
IMAGE_FOLDER = "/mnt/image"
FETCHED_FOLDER = "/mnt/fetched"
FILES_FOLDER = "/mnt/models"
"""Where a component finds its files: KServe copies them there."""
OBJECTS_FOLDER = f"{CACHE_FOLDER}/objects"
CACHED_REPOSITORIES_FOLDER = f"{CACHE_FOLDER}/repositories"


@dataclasses.dataclass(frozen=True, slots=True)
class Stop:
    """The duration of each part of a stop, in seconds."""

    drain: int
    exit_timeout: int
    grace: int


def stop(spec: Spec) -> Stop:
    """Divides the grace period: the drain, then requests in flight, then a margin."""
    grace, drain = spec.predictor.termination_grace_period_seconds, spec.predictor.drain_seconds
    return Stop(drain, grace - drain - STOP_MARGIN_SECONDS, grace)


def fetch_arguments(
    repository: str, folder: str, cache: collections.abc.Iterable[str] = ()
) -> list[str]:
    """The arguments that fetch a repository into a folder, by way of a cache if there are options of one."""
    return [repository, f"--to={folder}", *cache]


def fetch_files_arguments(address: str, folder: str, version: Version) -> list[str]:
    """The arguments that fetch the files of a component into a folder.

    Raises:
        InvalidSpec: the server's image is too old for it.
    """
    _is_known(FETCH_FILES, version)
    return [address, "--files", f"--to={folder}"]


def arguments(
    spec: Spec,
    repositories: tuple[str, ...],
    version: Version = OWN,
    cache: collections.abc.Iterable[str] = (),
) -> list[str]:
    """The server's command-line arguments: only options that its version knows, and then the user's own.

    Args:
        spec: the service.
        repositories: the model repositories in the server's notation (`builders.workload.storage`).
        version: the server's version (`builders.workload.image.resolve`); that of this release by default.
        cache: the options of a cache folder that stays.

    Raises:
        InvalidSpec: a field of the service needs an option that this server does not know.
    """
    predictor = spec.predictor
    seconds = stop(spec)
    written = [f"--model-repository={repository}" for repository in repositories]
    written += cache if predictor.model.delivery == "server" else ()
    load = predictor.model.load
    if load.mode == "explicit":
        written.append("--model-control-mode=explicit")
        written += [f"--load-model={model}" for model in load.models or ()]
    elif load.mode == "poll":
        seconds_between = load.poll_seconds or _POLL_SECONDS
        written += ["--model-control-mode=poll", f"--repository-poll-secs={seconds_between}"]
    written += [
        # A server that stays alive can report which model failed and why; an unready pod gets no traffic in either case.
        "--exit-on-error=false",
        # The kubelet and clients use the pod's address of the cluster's family, IPv4 or IPv6.
        "--http-address=::",
        "--grpc-address=::",
        f"--http-port={predictor.ports.http}",
        f"--grpc-port={predictor.ports.grpc}",
        f"--metrics-port={predictor.ports.metrics}",
        f"--grpc-max-connection-age={GRPC_MAX_CONNECTION_AGE_MS}",
        f"--shutdown-delay-secs={seconds.drain}",
        f"--exit-timeout-secs={seconds.exit_timeout}",
    ]
    written += [
        _escaped(
            f"--model-config-override={one.model}={json.dumps(one.config, separators=(',', ':'))}"
        )
        for one in predictor.model.overrides or ()
    ]
    written += [
        _escaped(f"--python-requirement={one}") for one in predictor.model.python_requirements or ()
    ]
    written += _readiness(predictor.readiness)
    if spec.path_prefix is not None and spec.gateway is None:
        written.append(f"--http-base-path={spec.path_prefix}")
    if spec.auth is not None:
        written.append(f"--auth-token-file={TOKEN_FOLDER}/{TOKEN_FILE}")
    known = [one for one in written if _is_known(OPTIONS[one.partition("=")[0]], version)]
    return [*known, *(predictor.args or ())]


def _is_known(option: Option, version: Version) -> bool:
    """Whether a server of this version knows an option.

    Raises:
        InvalidSpec: it does not, and a field of the service asks for the option.
    """
    if option.since <= version:
        return True
    if option.field:
        message = (
            f"needs a server of version {option.since} or newer, and this one counts as {version}: write a newer predictor.image, "
            "or its version in predictor.serverVersion if the image's tag does not say it"
        )
        raise InvalidSpec([Problem(option.field, message)])
    return False


def _escaped(argument: str) -> str:
    """An argument in which the kubelet expands no variable: it takes $(NAME) for one, and $$ for $."""
    return argument.replace("$", "$$")


def _readiness(wanted: Readiness | None) -> list[str]:
    if wanted is None or wanted.policy == "all":
        return []
    models = ",".join(wanted.models or ())
    return [_escaped(f"--readiness-policy={wanted.policy}{f':{models}' if models else ''}")]
