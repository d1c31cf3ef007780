"""The options of the server of this release: what `naiad serve` accepts. The operator's image does not contain the server.

The table is made from the server's own by `make generate`; tests/seams compares the verdicts of both.
"""

import typing


class Flag(typing.NamedTuple):
    """One option of the server.

    Attributes:
        kind: how its value is written: boolean, integer, float or string.
        since: the first version that knows it; "" for the oldest one that is supported.
        minimum: the smallest number allowed.
        maximum: the largest one.
        choices: the only words allowed.
        idle: why it has no effect.
        missing: the feature that the server does not have yet, so that it refuses the option.
        harmless: values of such an option that are accepted, in lower case.
    """

    kind: str
    since: str = ""
    minimum: float | None = None
    maximum: int | None = None
    choices: tuple[str, ...] = ()
    idle: str = ""
    missing: str = ""
    harmless: tuple[str, ...] = ()


# <!-- flags -->
FLAGS: dict[str, Flag] = {
    "id": Flag("string"),
    "exit-timeout-secs": Flag("integer", minimum=0),
    "model-repository": Flag("string"),
    "model-store": Flag("string"),
    "exit-on-error": Flag("boolean"),
    "disable-auto-complete-config": Flag("boolean"),
    "strict-readiness": Flag("boolean"),
    "model-control-mode": Flag("string", choices=("none", "poll", "explicit")),
    "repository-poll-secs": Flag("integer", minimum=0),
    "load-model": Flag("string"),
    "model-config-name": Flag("string"),
    "model-load-thread-count": Flag("integer", minimum=1),
    "model-load-retry-count": Flag("integer", minimum=0),
    "model-namespacing": Flag("boolean"),
    "enable-peer-access": Flag("boolean", idle="frameworks decide that themselves"),
    "allow-http": Flag("boolean"),
    "http-address": Flag("string"),
    "http-port": Flag("integer", minimum=0),
    "reuse-http-port": Flag("boolean"),
    "http-header-forward-pattern": Flag("string"),
    "http-thread-count": Flag("integer", idle="one event loop does this work, whatever the number of threads"),
    "http-max-input-size": Flag("integer", minimum=1, maximum=9223372036854775807),
    "http-restricted-api": Flag("string"),
    "allow-grpc": Flag("boolean"),
    "grpc-address": Flag("string"),
    "grpc-port": Flag("integer", minimum=0),
    "reuse-grpc-port": Flag("boolean"),
    "grpc-header-forward-pattern": Flag("string"),
    "grpc-infer-thread-count": Flag("integer", idle="one event loop does this work, whatever the number of threads"),
    "grpc-infer-allocation-pool-size": Flag("integer", idle="requests are allocated as they come"),
    "grpc-max-response-pool-size": Flag("integer", idle="responses are allocated as they come"),
    "grpc-use-ssl": Flag("boolean"),
    "grpc-use-ssl-mutual": Flag("boolean"),
    "grpc-server-cert": Flag("string"),
    "grpc-server-key": Flag("string"),
    "grpc-root-cert": Flag("string"),
    "grpc-max-decompressed-size": Flag("integer", since="0.2.0", minimum=1),
    "grpc-infer-response-compression-level": Flag("string", choices=("none", "low", "medium", "high")),
    "grpc-keepalive-time": Flag("integer"),
    "grpc-keepalive-timeout": Flag("integer"),
    "grpc-keepalive-permit-without-calls": Flag("boolean"),
    "grpc-http2-max-pings-without-data": Flag("integer"),
    "grpc-http2-min-recv-ping-interval-without-data": Flag("integer"),
    "grpc-http2-max-ping-strikes": Flag("integer"),
    "grpc-max-connection-age": Flag("integer", minimum=0),
    "grpc-max-connection-age-grace": Flag("integer", minimum=0),
    "grpc-restricted-protocol": Flag("string"),
    "log-verbose": Flag("string"),
    "log-info": Flag("boolean"),
    "log-warning": Flag("boolean"),
    "log-error": Flag("boolean"),
    "log-format": Flag("string", choices=("default", "ISO8601", "json")),
    "log-file": Flag("string"),
    "access-log": Flag("boolean"),
    "slow-request-ms": Flag("float", minimum=0),
    "trace-config": Flag("string", since="0.2.0"),
    "trace-file": Flag("string", since="0.2.0"),
    "trace-level": Flag("string", since="0.2.0"),
    "trace-rate": Flag("string", since="0.2.0"),
    "trace-count": Flag("string", since="0.2.0"),
    "trace-log-frequency": Flag("string", since="0.2.0"),
    "allow-metrics": Flag("boolean"),
    "allow-gpu-metrics": Flag("boolean"),
    "allow-cpu-metrics": Flag("boolean"),
    "metrics-address": Flag("string"),
    "metrics-port": Flag("integer", minimum=0),
    "metrics-interval-ms": Flag("float", minimum=1),
    "metrics-config": Flag("string"),
    "backend-directory": Flag("string"),
    "backend-config": Flag("string"),
    "repoagent-directory": Flag("string"),
    "min-supported-compute-capability": Flag("float", minimum=0),
    "pinned-memory-pool-byte-size": Flag("integer", idle="tensors live in ordinary memory, allocated when needed"),
    "cuda-memory-pool-byte-size": Flag("string", idle="frameworks allocate GPU memory themselves"),
    "cuda-virtual-address-size": Flag("string", idle="frameworks allocate GPU memory themselves"),
    "buffer-manager-thread-count": Flag("integer", idle="a batch is put together where it runs"),
    "host-policy": Flag("string", since="0.2.0"),
    "model-load-gpu-limit": Flag("string"),
    "allow-client-shm": Flag("boolean", since="0.2.0"),
    "client-shm-owner": Flag("string", since="0.2.0", choices=("any", "same")),
    "rate-limit": Flag("string", since="0.2.0"),
    "rate-limit-resource": Flag("string", since="0.2.0"),
    "cache-config": Flag("string", since="0.2.0"),
    "response-cache-byte-size": Flag("string", since="0.2.0"),
    "cache-directory": Flag("string", idle="both caches are part of the server"),
    "allow-sagemaker": Flag("boolean", missing="the SageMaker front end", harmless=("false", "off", "0")),
    "sagemaker-port": Flag("integer", idle="the SageMaker front end is not supported yet"),
    "sagemaker-safe-port-range": Flag("string", idle="the SageMaker front end is not supported yet"),
    "sagemaker-thread-count": Flag("integer", idle="the SageMaker front end is not supported yet"),
    "allow-vertex-ai": Flag("boolean", missing="the Vertex AI front end", harmless=("false", "off", "0")),
    "vertex-ai-port": Flag("integer", idle="the Vertex AI front end is not supported yet"),
    "vertex-ai-thread-count": Flag("integer", idle="the Vertex AI front end is not supported yet"),
    "vertex-ai-default-model": Flag("string", missing="the Vertex AI front end", harmless=("",)),
    "model-memory-limit": Flag("string"),
    "evicted-model-wait-secs": Flag("float", minimum=0),
    "model-config-override": Flag("string", since="0.2.0"),
    "python-requirement": Flag("string", since="0.2.0"),
    "repository-quiet-secs": Flag("float", minimum=0),
    "readiness-policy": Flag("string", since="0.2.0"),
    "auth-token-file": Flag("string"),
    "shutdown-delay-secs": Flag("float", minimum=0),
    "batch-strategy-libraries": Flag("boolean", since="0.2.0"),
    "gpu-fallback": Flag("string", since="0.2.0", choices=("refuse", "cpu")),
    "repository-cache-directory": Flag("string"),
    "repository-cache-bytes": Flag("integer", minimum=0),
    "http-base-path": Flag("string", since="0.2.0"),
    "http-engine": Flag("string", since="0.2.0", choices=("native", "uvicorn")),
    "allow-kserve-v1": Flag("boolean", since="0.2.0"),
    "grpc-engine": Flag("string", since="0.2.0", choices=("native", "grpcio")),
    "grpc-reflection": Flag("boolean", since="0.2.0"),
    "http-idle-timeout-secs": Flag("float", minimum=0.1),
    "http-body-timeout-secs": Flag("float", minimum=0.1),
    "strict-model-config": Flag("boolean"),
}  # fmt: skip
# <!-- /flags -->
