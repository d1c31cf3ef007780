"""The options of the command line: `Options` holds their values, and a table of flags, in Triton's own groups, says how each is written.

The defaults are Triton's (section 17). A flag either sets a field of `Options`, or has no effect here (`idle`: accepted, and said once in the
log), or belongs to a feature that does not exist yet (`missing`: only its harmless default is accepted, anything else is refused by name).
"""

import collections.abc
import enum
import sys
import types
import typing

import msgspec

from naiad.engine.readiness_policy import ReadinessPolicy
from naiad.hosts.worker.placement import HostPolicy
from naiad.metrics.options import MetricsOptions
from naiad.repository.control_mode import ControlMode
from naiad.response_cache.settings import CacheSettings
from naiad.scheduling.rate_limiter.keys import ExplicitAmounts
from naiad.tracing.settings import TraceOptions

Restrictions = collections.abc.Mapping[str, tuple[str, str]]
"""API category -> (header name, header value) that a caller must send (row 17.15)."""


DEFAULT_BACKEND_DIRECTORY = "/opt/tritonserver/backends"
DEFAULT_AGENT_DIRECTORY = "/opt/tritonserver/repoagents"


_NOTHING: types.MappingProxyType[typing.Any, typing.Any] = types.MappingProxyType({})


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """The options that have an effect. Names are the flags' with underscores; units are in the names or said here.

    Attributes:
        backend_directory: holds Python-based backends and libraries in C (row 11.52).
        repoagent_directory: holds repository agents (row 14.35).
        backend_config: by backend name; "" holds settings for all backends (row 17.10).
        repository_poll_secs: from one poll of the repository to the next one; 0: do not poll (row 7.30).
        repository_quiet_secs: how long the files of a changed model must stay the same before a poll loads it; None: the poll interval, at
            most 5 s.
        repository_cache_directory: "" is a temporary folder.
        repository_cache_bytes: 0 means no limit.
        load_model: names of models to load at start; `*` alone means all of them (row 7.31).
        model_config_override: fields in place of those of a model's config, as JSON by the model's name.
        python_requirement: what the environment holds of Python models that bring none of their own.
        http_max_input_size: bytes (row 1.11).
        http_base_path: the prefix under which HTTP paths are served as well, e.g. /api/predict/demo; "" for no prefix.
        allow_kserve_v1: whether HTTP has the paths below /v1, those of KServe's v1.
        grpc_max_decompressed_size: bytes.
        grpc_keepalive_time: and the other gRPC times: milliseconds (row 10.38).
        grpc_max_connection_age: milliseconds; 0 means no limit (row 10.39), the grace likewise.
        log_verbose: 0 is off; higher says more.
        log_format: "default", "ISO8601" or, ours, "json".
        metrics_address: "" follows http_address (row 8.13).
        metrics: which metrics are kept (rows 8.18 to 8.25).
        model_load_gpu_limit: by device, the fraction of its memory that may be in use when a model is loaded (row 7.38).
        host_policy: by name (row 17.9).
        rate_limit: whether the rate limiter grants resources (row 14.17).
        rate_limit_resource: how much there is of each resource (row 14.18).
        cache: the response cache; None without one.
        model_memory_limit: bytes by device; `memory_limits.HOST` for the host.
        notes: one line for every option that was accepted and has no effect here, said once in the log.
    """

    model_repository: tuple[str, ...]
    id: str = "triton"
    exit_on_error: bool = True
    model_control_mode: ControlMode = ControlMode.NONE
    repository_poll_secs: int = 15
    repository_quiet_secs: float | None = None
    load_model: tuple[str, ...] = ()
    model_config_override: collections.abc.Mapping[str, str] = _NOTHING
    python_requirement: tuple[str, ...] = ()
    exit_timeout_secs: int = 30
    strict_readiness: bool = True
    readiness_policy: ReadinessPolicy = ReadinessPolicy()
    disable_auto_complete_config: bool = False
    model_config_name: str = ""
    model_load_thread_count: int = 4
    model_load_retry_count: int = 0
    model_namespacing: bool = False
    min_supported_compute_capability: float = 0.0
    gpu_fallback: str = "refuse"
    batch_strategy_libraries: bool = False
    model_load_gpu_limit: collections.abc.Mapping[int, float] = _NOTHING
    model_memory_limit: collections.abc.Mapping[int, int] = _NOTHING
    evicted_model_wait_secs: float = 0.0

    allow_client_shm: bool = False
    client_shm_owner: str = "any"

    cache: CacheSettings | None = None

    allow_http: bool = True
    http_address: str = "0.0.0.0"  # noqa: S104 - Triton's default: a container's server is meant to be reached
    http_port: int = 8000
    reuse_http_port: bool = False
    http_header_forward_pattern: str = ""
    http_max_input_size: int = 64 * 1024 * 1024
    http_restricted_api: Restrictions = _NOTHING
    http_base_path: str = ""
    http_engine: str = "native"
    allow_kserve_v1: bool = True

    allow_grpc: bool = True
    grpc_address: str = "0.0.0.0"  # noqa: S104 - as above
    grpc_port: int = 8001
    reuse_grpc_port: bool = False
    grpc_engine: str = "native"
    grpc_reflection: bool = False
    grpc_header_forward_pattern: str = ""
    grpc_use_ssl: bool = False
    grpc_use_ssl_mutual: bool = False
    grpc_server_cert: str = ""
    grpc_server_key: str = ""
    grpc_root_cert: str = ""
    grpc_max_decompressed_size: int = 256 * 1024 * 1024
    grpc_infer_response_compression_level: str = "none"
    grpc_keepalive_time: int = 7_200_000
    grpc_keepalive_timeout: int = 20_000
    grpc_keepalive_permit_without_calls: bool = False
    grpc_http2_max_pings_without_data: int = 2
    grpc_http2_min_recv_ping_interval_without_data: int = 300_000
    grpc_http2_max_ping_strikes: int = 2
    grpc_max_connection_age: int = 0
    grpc_max_connection_age_grace: int = 0
    grpc_restricted_protocol: Restrictions = _NOTHING

    log_verbose: int = 0
    log_info: bool = True
    log_warning: bool = True
    log_error: bool = True
    log_format: str = "default"
    log_file: str = ""

    allow_metrics: bool = True
    allow_gpu_metrics: bool = True
    allow_cpu_metrics: bool = True
    metrics_address: str = ""
    metrics_port: int = 8002
    metrics_interval_ms: float = 2000.0
    metrics: MetricsOptions = MetricsOptions()

    backend_directory: str = DEFAULT_BACKEND_DIRECTORY
    repoagent_directory: str = DEFAULT_AGENT_DIRECTORY
    backend_config: collections.abc.Mapping[str, collections.abc.Mapping[str, str]] = _NOTHING

    host_policy: collections.abc.Mapping[str, HostPolicy] = _NOTHING
    rate_limit: bool = False
    rate_limit_resource: ExplicitAmounts = _NOTHING

    access_log: bool = False
    slow_request_ms: float = 0.0
    auth_token_file: str = ""
    repository_cache_directory: str = ""
    repository_cache_bytes: int = 0
    http_idle_timeout_secs: float = 75.0
    http_body_timeout_secs: float = 60.0
    shutdown_delay_secs: float = 0.0

    trace: TraceOptions = TraceOptions()

    notes: tuple[str, ...] = ()


class Kind(enum.Enum):
    """How a value is written; the value is the placeholder that the help shows."""

    BOOLEAN = "boolean"
    INTEGER = "integer"
    FLOAT = "float"
    STRING = "string"


class Flag(msgspec.Struct, frozen=True, kw_only=True):
    """One flag.

    Attributes:
        name: without the dashes.
        kind: how its value is written.
        help: one sentence.
        field: the field of `Options` that it sets; "" for idle, missing and specially parsed flags.
        minimum: the smallest number allowed.
        maximum: the largest one.
        why: the reason for them, where a number outside deserves one.
        choices: the only words allowed.
        idle: why it has no effect here.
        missing: the feature that does not exist yet.
        harmless: values of a missing feature's flag that ask for nothing, in lower case.
    """

    name: str
    kind: Kind
    help: str
    field: str = ""
    minimum: float | None = None
    maximum: int | None = None
    why: str = ""
    choices: tuple[str, ...] = ()
    idle: str = ""
    missing: str = ""
    harmless: tuple[str, ...] = ()


def _flag(
    name: str, kind: Kind, text: str, *, minimum: float | None = None, choices: tuple[str, ...] = ()
) -> Flag:
    field = name.replace("-", "_")
    return Flag(name=name, kind=kind, help=text, field=field, minimum=minimum, choices=choices)


def _special(name: str, text: str, *, kind: Kind = Kind.STRING) -> Flag:
    return Flag(name=name, kind=kind, help=text)


def _idle(name: str, kind: Kind, reason: str) -> Flag:
    return Flag(name=name, kind=kind, help=f"Accepted; has no effect here: {reason}.", idle=reason)


def _missing(name: str, kind: Kind, feature: str, *harmless: str) -> Flag:
    return Flag(
        name=name,
        kind=kind,
        help=f"Not supported yet: {feature}.",
        missing=feature,
        harmless=harmless,
    )


_B, _I, _F, _S = Kind.BOOLEAN, Kind.INTEGER, Kind.FLOAT, Kind.STRING
_NO = ("false", "off", "0")
_ONE_LOOP = "one event loop does this work, whatever the number of threads"
_HOST_MEMORY = "tensors live in ordinary memory, allocated when needed"

GROUPS: dict[str, tuple[Flag, ...]] = {
    "Server": (
        _flag("id", _S, "Name of this server, shown by GET /v2."),
        _flag("exit-timeout-secs", _I, "Seconds to finish requests in flight when stopping.", minimum=0),
    ),
    "Model repository": (
        _special("model-repository", "Folder that holds one folder per model, or the address of one in an object store (s3://bucket/prefix); "
                 "may be given several times."),
        _special("model-store", "The same as --model-repository."),
        _flag("exit-on-error", _B, "Exit with 1 when a model fails to load at start."),
        _flag("disable-auto-complete-config", _B, "Do not fill in what a config.pbtxt leaves out."),
        _flag("strict-readiness", _B, "Ready only while every model is ready."),
        _special("model-control-mode", "none (the default): all models are loaded at start. poll: the same, then what "
                 "changes in the repository. explicit: those of --load-model, then as clients load and unload."),
        _flag("repository-poll-secs", _I, "Seconds between two polls of the repository; 0 does not poll; needs --model-control-mode=poll.", minimum=0),
        _special("load-model", "Model to load at start, or * alone for all; needs --model-control-mode=explicit; may be given several times."),
        _flag("model-config-name", _S, "Use configs/NAME.pbtxt of a model where there is one."),
        _flag("model-load-thread-count", _I, "Models to load at the same time.", minimum=1),
        _flag("model-load-retry-count", _I, "How often to try again when a model fails to load.", minimum=0),
        _flag("model-namespacing", _B, "Serve models of the same name from different repositories, each in the namespace of its repository."),
        _idle("enable-peer-access", _B, "frameworks decide that themselves"),
    ),
    "HTTP": (
        _flag("allow-http", _B, "Serve HTTP."),
        _flag("http-address", _S, "Address to listen on; :: for IPv4 and IPv6. The forms [::1] and ipv6:[::1] are taken, too."),
        _flag("http-port", _I, "Port to listen on.", minimum=0),
        _flag("reuse-http-port", _B, "Share the port with other servers (SO_REUSEPORT)."),
        _flag("http-header-forward-pattern", _S, "Regular expression (RE2) of headers that become request parameters; knows no case unless it begins with (?-i)."),
        _idle("http-thread-count", _I, _ONE_LOOP),
        Flag(name="http-max-input-size", kind=_I, field="http_max_input_size", help="Largest input in bytes.",
             minimum=1, maximum=sys.maxsize,
             why=f"it counts bytes, so that 0 lets no request in and memory ends at {sys.maxsize}; the default is 67108864 (64 MiB)"),
        _special("http-restricted-api", "API,API:HEADER=VALUE: these APIs answer only requests with this header."),
    ),
    "gRPC": (
        _flag("allow-grpc", _B, "Serve gRPC."),
        _flag("grpc-address", _S, "Address to listen on, in the same forms."),
        _flag("grpc-port", _I, "Port to listen on.", minimum=0),
        _flag("reuse-grpc-port", _B, "Share the port with other servers (SO_REUSEPORT)."),
        _flag("grpc-header-forward-pattern", _S, "Regular expression (RE2) of metadata that become request parameters; knows no case unless it begins with (?-i)."),
        _idle("grpc-infer-thread-count", _I, _ONE_LOOP),
        _idle("grpc-infer-allocation-pool-size", _I, "requests are allocated as they come"),
        _idle("grpc-max-response-pool-size", _I, "responses are allocated as they come"),
        _flag("grpc-use-ssl", _B, "Serve gRPC over TLS."),
        _flag("grpc-use-ssl-mutual", _B, "Ask clients for a certificate; implies --grpc-use-ssl."),
        _flag("grpc-server-cert", _S, "PEM file with the server's certificate."),
        _flag("grpc-server-key", _S, "PEM file with the server's private key."),
        _flag("grpc-root-cert", _S, "PEM file with the certificates that clients are checked against."),
        _flag("grpc-max-decompressed-size", _I, "Largest compressed message once it is decompressed, in bytes; messages without compression may have 2 GiB.", minimum=1),
        _flag("grpc-infer-response-compression-level", _S, "Compression of infer responses.", choices=("none", "low", "medium", "high")),
        _flag("grpc-keepalive-time", _I, "Milliseconds without traffic until the server pings."),
        _flag("grpc-keepalive-timeout", _I, "Milliseconds to wait for the answer to a ping."),
        _flag("grpc-keepalive-permit-without-calls", _B, "Allow pings while no call is open."),
        _flag("grpc-http2-max-pings-without-data", _I, "Pings the server sends without data between them."),
        _flag("grpc-http2-min-recv-ping-interval-without-data", _I, "Milliseconds a client must leave between pings."),
        _flag("grpc-http2-max-ping-strikes", _I, "Pings that come too early until the connection is closed."),
        _flag("grpc-max-connection-age", _I, "Milliseconds until a connection is asked to go.", minimum=0),
        _flag("grpc-max-connection-age-grace", _I, "Milliseconds it then has for calls in progress.", minimum=0),
        _special("grpc-restricted-protocol", "API,API:KEY=VALUE: these answer only calls with metadata triton-grpc-protocol-KEY."),
    ),
    "Logging": (
        _special("log-verbose", "0 or false is off, a number or true says more."),
        _flag("log-info", _B, "Log what happens."),
        _flag("log-warning", _B, "Log warnings."),
        _flag("log-error", _B, "Log errors."),
        _flag("log-format", _S, "Format of log lines; json is ours, one object per line.", choices=("default", "ISO8601", "json")),
        _flag("log-file", _S, "Write the log to this file instead of standard error."),
        _flag("access-log", _B, "One log line for each HTTP request and gRPC call, refused ones included (ours; off by default)."),
        _flag("slow-request-ms", _F, "Log requests that took so many milliseconds, as warnings; 0 logs none (ours).", minimum=0),
    ),
    "Tracing": (
        _special("trace-config", "SETTING=VALUE with level (OFF, TIMESTAMPS, TENSORS), rate, count or mode (triton, opentelemetry), or MODE,SETTING=VALUE: "
                 "triton,file=FILE, triton,log-frequency=N, opentelemetry,url=URL, opentelemetry,resource=KEY=VALUE and opentelemetry,bsp_...=N; may be "
                 "given several times."),
        _special("trace-file", "The older way to write triton,file=FILE."),
        _special("trace-level", "The older way to write level=LEVEL; may be given several times."),
        _special("trace-rate", "The older way to write rate=N."),
        _special("trace-count", "The older way to write count=N."),
        _special("trace-log-frequency", "The older way to write triton,log-frequency=N."),
    ),
    "Metrics": (
        _flag("allow-metrics", _B, "Serve metrics and /status."),
        _flag("allow-gpu-metrics", _B, "Measure GPUs."),
        _flag("allow-cpu-metrics", _B, "Measure CPU and memory."),
        _flag("metrics-address", _S, "Address of the metrics; that of HTTP when not given."),
        _flag("metrics-port", _I, "Port of the metrics.", minimum=0),
        _flag("metrics-interval-ms", _F, "Milliseconds between measurements of CPU and GPU.", minimum=1),
        _special("metrics-config", "KEY=VALUE, see the page on metrics: counter_latencies, histogram_latencies, summary_latencies, summary_quantiles, exemplars."),
    ),
    "Backends and devices": (
        _flag("backend-directory", _S, "Folder of backends: BACKEND/model.py, or the library BACKEND/libnaiad_BACKEND.so, in it serves every model that names BACKEND."),
        _special("backend-config", "BACKEND,KEY=VALUE, or KEY=VALUE for all backends."),
        _flag("repoagent-directory", _S, "Folder of repository agents: AGENT/agent.py in it runs for every model whose config names AGENT."),
        _flag("min-supported-compute-capability", _F, "GPUs below this compute capability are not used.", minimum=0),
        _idle("pinned-memory-pool-byte-size", _I, _HOST_MEMORY),
        _idle("cuda-memory-pool-byte-size", _S, "frameworks allocate GPU memory themselves"),
        _idle("cuda-virtual-address-size", _S, "frameworks allocate GPU memory themselves"),
        _idle("buffer-manager-thread-count", _I, "a batch is put together where it runs"),
        _special("host-policy", "NAME,cpu-cores=A-B or NAME,numa-node=N: the processors that instances of this policy run on, and the NUMA node of their "
                 "memory; may be given several times. Instances follow the host_policy of their group, else the policy cpu, gpu_ID or model."),
        _special("model-load-gpu-limit", "ID:FRACTION: no model is loaded on GPU ID while more than this part of its memory is in use; may be given several times."),
        _flag("allow-client-shm", _B, "Clients may register shared memory of this machine for tensors of their requests and responses."),
        _flag("client-shm-owner", _S, "Whose shared memory they may register: that of any user, or only the same user's as the server's (ours).",
              choices=("any", "same")),
    ),
    "Rate limiter": (
        _special("rate-limit", "off (the default): a free instance takes the next batch. execution_count: only once it has the resources that its instance "
                 "group names in rate_limiter; where they do not suffice for all, shares of executions follow the priorities there."),
        _special("rate-limit-resource", "NAME:COUNT or NAME:COUNT:DEVICE: how much there is of a resource, on each device or on one; may be given several "
                 "times. Default: the most that any instance needs; once the option is given, there is nothing of a resource that it does not name."),
    ),
    "Response cache": (
        _special("cache-config", "local,size=BYTES or redis,host=HOST,port=PORT: keeps the responses of models with response_cache { enable: true }."),
        _special("response-cache-byte-size", "The older way to write local,size=BYTES; 0 means that there is none."),
        _idle("cache-directory", _S, "both caches are part of the server"),
    ),
    "Features that are not supported yet": (
        _missing("allow-sagemaker", _B, "the SageMaker front end", *_NO),
        _idle("sagemaker-port", _I, "the SageMaker front end is not supported yet"),
        _idle("sagemaker-safe-port-range", _S, "the SageMaker front end is not supported yet"),
        _idle("sagemaker-thread-count", _I, "the SageMaker front end is not supported yet"),
        _missing("allow-vertex-ai", _B, "the Vertex AI front end", *_NO),
        _idle("vertex-ai-port", _I, "the Vertex AI front end is not supported yet"),
        _idle("vertex-ai-thread-count", _I, "the Vertex AI front end is not supported yet"),
        _missing("vertex-ai-default-model", _S, "the Vertex AI front end", ""),
    ),
    "Naiad's own": (
        _special("model-memory-limit", "BYTES (12GiB) for the host's memory, ID:BYTES for a GPU's; may be given several times. Before a load that "
                 "would not fit, the least recently used models are unloaded."),
        _flag("evicted-model-wait-secs", _F, "Seconds that a request for a model that was unloaded by --model-memory-limit waits until it is loaded again; 0 "
              "refuses the request.", minimum=0),
        _special("model-config-override", "NAME=JSON: fields that replace those of the model's config.pbtxt at each load, e.g. "
                 'resnet={"maxBatchSize": 16}; may be given several times.'),
        _special("python-requirement", "A package, as pip takes it, or a file of packages ('-r /FILE'), for all Python models without an environment of their own; may be given several times."),
        _flag("repository-quiet-secs", _F, "Seconds in which the files of a changed model must stay the same until a poll loads it; 0 loads it at "
              "once, as Triton does. Default: --repository-poll-secs, at most 5.", minimum=0),
        _special("readiness-policy", "Which models must be ready for the server to be: all (the default), any (at least one), or models:NAME,NAME."),
        _flag("auth-token-file", _S, "File with one token per line; all calls except those about health must send one of them as Authorization. "
              "Read again when it changes."),
        _flag("shutdown-delay-secs", _F, "Seconds after SIGTERM in which the server says not ready and goes on accepting.",
              minimum=0),
        _flag("batch-strategy-libraries", _B, "Load batching strategies that are libraries in C (batchstrategy.so) into the server's process, which a crash of one "
              "ends; without it a model with one is refused (ours)."),
        _flag("gpu-fallback", _S, "What becomes of models whose config asks for GPUs where there is none: refuse them, as Triton does, or serve them on the "
              "cpu, without their settings for GPUs, with a warning each (ours).", choices=("refuse", "cpu")),
        _flag("repository-cache-directory", _S, "Folder for models of object stores, which several servers may share; a temporary one, removed at the end, "
              "when not given."),
        _flag("repository-cache-bytes", _I, "Largest size of that folder; 0 means unlimited.", minimum=0),
        _special("http-base-path", "Prefix (/api/predict/NAME) under which every HTTP path is served as well, for gateways that do not remove it; without "
                 "the prefix the paths work, too, as probes need them. gRPC and metrics have none."),
        _flag("http-engine", _S, "What carries HTTP: native, or uvicorn, with the same application in FastAPI.", choices=("native", "uvicorn")),
        _flag("allow-kserve-v1", _B, "Serve KServe's v1 over HTTP as well: /v1/models/NAME:predict and the other paths below /v1."),
        _flag("grpc-engine", _S, "What carries gRPC: native, or grpcio, the reference implementation, which is several times slower.", choices=("native", "grpcio")),
        _flag("grpc-reflection", _B, "Serve grpc.reflection.v1 and v1alpha, by which tools such as grpcurl find the services; restricted as metadata is, and "
              "with --auth-token-file a token is needed."),
        _flag("http-idle-timeout-secs", _F, "Seconds until an idle HTTP connection is closed.", minimum=0.1),
        _flag("http-body-timeout-secs", _F, "Seconds that a request body may stand still.", minimum=0.1),
    ),
    "Deprecated": (
        _special("strict-model-config", "Use --disable-auto-complete-config.", kind=_B),
    ),
}  # fmt: skip

FLAGS: dict[str, Flag] = {flag.name: flag for flags in GROUPS.values() for flag in flags}
