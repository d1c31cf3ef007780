"""The table of flags: Triton's in its own groups and with its own defaults (section 17), then ours.

A flag either sets a field of `Options`, or has no effect here (`idle`: accepted, and said once in the log), or belongs to
a feature that does not exist yet (`missing`: only its harmless default is accepted, anything else is refused by name).
"""

import enum
import sys

import msgspec


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
        repeats: may be given several times.
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
    repeats: bool = False
    idle: str = ""
    missing: str = ""
    harmless: tuple[str, ...] = ()


def _flag(name: str, kind: Kind, text: str, *, minimum: float | None = None) -> Flag:
    return Flag(name=name, kind=kind, help=text, field=name.replace("-", "_"), minimum=minimum)


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
        Flag(name="model-repository", kind=_S, repeats=True,
             help="Folder that holds one folder per model; may be given several times."),
        Flag(name="model-store", kind=_S, repeats=True, help="The same as --model-repository."),
        _flag("exit-on-error", _B, "Exit with 1 when a model fails to load at start."),
        _flag("disable-auto-complete-config", _B, "Do not fill in what a config.pbtxt leaves out."),
        _flag("strict-readiness", _B, "Ready only while every model is ready."),
        Flag(name="model-control-mode", kind=_S, help="none (the default): all models are loaded at start. explicit: those of "
             "--load-model, then as clients load and unload. poll is not supported yet."),
        _idle("repository-poll-secs", _I, "the repository is not polled (control modes none and explicit)"),
        Flag(name="load-model", kind=_S, repeats=True,
             help="Model to load at start, or * alone for all; needs --model-control-mode=explicit; may be given several times."),
        _flag("model-config-name", _S, "Use configs/NAME.pbtxt of a model where there is one."),
        _flag("model-load-thread-count", _I, "Models to load at the same time.", minimum=1),
        _flag("model-load-retry-count", _I, "How often to try again when a model fails to load.", minimum=0),
        _missing("model-namespacing", _B, "the same model name in two repositories", *_NO),
        _idle("enable-peer-access", _B, "frameworks decide that themselves"),
    ),
    "HTTP": (
        _flag("allow-http", _B, "Serve HTTP."),
        _flag("http-address", _S, "Address to listen on."),
        _flag("http-port", _I, "Port to listen on.", minimum=0),
        _flag("reuse-http-port", _B, "Share the port with other servers (SO_REUSEPORT)."),
        _flag("http-header-forward-pattern", _S, "Regular expression (RE2) of headers that become request parameters; knows no case unless it begins with (?-i)."),
        _idle("http-thread-count", _I, _ONE_LOOP),
        Flag(name="http-max-input-size", kind=_I, field="http_max_input_size", help="Largest input in bytes.",
             minimum=1, maximum=sys.maxsize,
             why=f"it counts bytes, so that 0 lets no request in and memory ends at {sys.maxsize}; the default is 67108864 (64 MiB)"),
        Flag(name="http-restricted-api", kind=_S, repeats=True,
             help="API,API:HEADER=VALUE: these APIs answer only requests with this header."),
    ),
    "gRPC": (
        _flag("allow-grpc", _B, "Serve gRPC."),
        _flag("grpc-address", _S, "Address to listen on."),
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
        Flag(name="grpc-infer-response-compression-level", kind=_S, choices=("none", "low", "medium", "high"),
             field="grpc_infer_response_compression_level", help="Compression of infer responses."),
        _flag("grpc-keepalive-time", _I, "Milliseconds without traffic until the server pings."),
        _flag("grpc-keepalive-timeout", _I, "Milliseconds to wait for the answer to a ping."),
        _flag("grpc-keepalive-permit-without-calls", _B, "Allow pings while no call is open."),
        _flag("grpc-http2-max-pings-without-data", _I, "Pings the server sends without data between them."),
        _flag("grpc-http2-min-recv-ping-interval-without-data", _I, "Milliseconds a client must leave between pings."),
        _flag("grpc-http2-max-ping-strikes", _I, "Pings that come too early until the connection is closed."),
        _flag("grpc-max-connection-age", _I, "Milliseconds until a connection is asked to go.", minimum=0),
        _flag("grpc-max-connection-age-grace", _I, "Milliseconds it then has for calls in progress.", minimum=0),
        Flag(name="grpc-restricted-protocol", kind=_S, repeats=True,
             help="API,API:KEY=VALUE: these answer only calls with metadata triton-grpc-protocol-KEY."),
    ),
    "Logging": (
        Flag(name="log-verbose", kind=_S, help="0 or false is off, a number or true says more."),
        _flag("log-info", _B, "Log what happens."),
        _flag("log-warning", _B, "Log warnings."),
        _flag("log-error", _B, "Log errors."),
        Flag(name="log-format", kind=_S, field="log_format", choices=("default", "ISO8601", "json"),
             help="Format of log lines; json is ours, one object per line."),
        _flag("log-file", _S, "Write the log to this file instead of standard error."),
        _flag("access-log", _B, "One log line for each HTTP request and gRPC call, refused ones included (ours; off by default)."),
        _flag("slow-request-ms", _F, "Log requests that took so many milliseconds, as warnings; 0 logs none (ours).", minimum=0),
    ),
    "Metrics": (
        _flag("allow-metrics", _B, "Serve metrics and /status."),
        _flag("allow-gpu-metrics", _B, "Measure GPUs."),
        _flag("allow-cpu-metrics", _B, "Measure CPU and memory."),
        _flag("metrics-address", _S, "Address of the metrics; that of HTTP when not given."),
        _flag("metrics-port", _I, "Port of the metrics.", minimum=0),
        _flag("metrics-interval-ms", _F, "Milliseconds between measurements of CPU and GPU.", minimum=1),
        Flag(name="metrics-config", kind=_S, repeats=True, help="counter_latencies=true|false."),
    ),
    "Backends and devices": (
        _flag("backend-directory", _S, "Folder of Python-based backends: BACKEND/model.py in it serves every model that names BACKEND."),
        Flag(name="backend-config", kind=_S, repeats=True, help="BACKEND,KEY=VALUE, or KEY=VALUE for all backends."),
        _idle("repoagent-directory", _S, "repository agents are not supported yet, and a config that names one is refused"),
        _flag("min-supported-compute-capability", _F, "GPUs below this compute capability are not used.", minimum=0),
        _idle("pinned-memory-pool-byte-size", _I, _HOST_MEMORY),
        Flag(name="cuda-memory-pool-byte-size", kind=_S, repeats=True, idle="frameworks allocate GPU memory themselves",
             help="Accepted; has no effect here: frameworks allocate GPU memory themselves."),
        Flag(name="cuda-virtual-address-size", kind=_S, repeats=True, idle="frameworks allocate GPU memory themselves",
             help="Accepted; has no effect here: frameworks allocate GPU memory themselves."),
        _idle("buffer-manager-thread-count", _I, "a batch is put together where it runs"),
        Flag(name="host-policy", kind=_S, repeats=True, missing="host policies", help="Not supported yet: host policies."),
        Flag(name="model-load-gpu-limit", kind=_S, repeats=True, missing="a limit on GPU memory while loading",
             help="Not supported yet: a limit on GPU memory while loading."),
        _missing("allow-client-shm", _B, "shared memory with clients", *_NO),
    ),
    "Features that are not supported yet": (
        _missing("rate-limit", _S, "the rate limiter", "off"),
        Flag(name="rate-limit-resource", kind=_S, repeats=True, missing="the rate limiter",
             help="Not supported yet: the rate limiter."),
        Flag(name="cache-config", kind=_S, repeats=True, missing="the response cache", help="Not supported yet: the response cache."),
        _idle("cache-directory", _S, "the response cache is not supported yet, and a config that asks for it is refused"),
        _missing("response-cache-byte-size", _I, "the response cache", "0"),
        Flag(name="trace-config", kind=_S, repeats=True, missing="tracing", help="Not supported yet: tracing."),
        _missing("trace-file", _S, "tracing", ""),
        Flag(name="trace-level", kind=_S, repeats=True, missing="tracing", harmless=("off", "disabled"),
             help="Not supported yet: tracing."),
        _idle("trace-rate", _I, "tracing is not supported yet"),
        _idle("trace-count", _I, "tracing is not supported yet"),
        _idle("trace-log-frequency", _I, "tracing is not supported yet"),
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
        _flag("auth-token-file", _S, "File with one token per line; all calls except those about health must send one of them as Authorization. "
              "Read again when it changes."),
        _flag("shutdown-delay-secs", _F, "Seconds after SIGTERM in which the server says not ready and goes on accepting.",
              minimum=0),
        _flag("http-idle-timeout-secs", _F, "Seconds until an idle HTTP connection is closed.", minimum=0.1),
        _flag("http-body-timeout-secs", _F, "Seconds that a request body may stand still.", minimum=0.1),
    ),
    "Deprecated": (
        Flag(name="strict-model-config", kind=_B, help="Use --disable-auto-complete-config."),
    ),
}  # fmt: skip

FLAGS: dict[str, Flag] = {flag.name: flag for flags in GROUPS.values() for flag in flags}
