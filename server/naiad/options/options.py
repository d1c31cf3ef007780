"""The options of the command line as one frozen struct; the defaults are Triton's (section 17)."""

import collections.abc
import types
import typing

import msgspec

from naiad.repository.control_mode import ControlMode

Restrictions = collections.abc.Mapping[str, tuple[str, str]]
"""API category -> (header name, header value) that a caller must send (row 17.15)."""


DEFAULT_BACKEND_DIRECTORY = "/opt/tritonserver/backends"


def _nothing() -> types.MappingProxyType[str, typing.Any]:
    return types.MappingProxyType({})


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """The options that have an effect. Names are the flags' with underscores; units are in the names or said here.

    Attributes:
        backend_directory: holds Python-based backends (row 11.52).
        backend_config: by backend name; "" holds settings for all backends (row 17.10).
        load_model: names of models to load at start; `*` alone means all of them (row 7.31).
        http_max_input_size: bytes (row 1.11).
        grpc_keepalive_time: and the other gRPC times: milliseconds (row 10.38).
        grpc_max_connection_age: milliseconds; 0 means no limit (row 10.39), the grace likewise.
        log_verbose: 0 is off; higher says more.
        log_format: "default", "ISO8601" or, ours, "json".
        metrics_address: "" follows http_address (row 8.13).
        counter_latencies: whether latency counters are kept (row 8.18).
        notes: one line for every option that was accepted and has no effect here, said once in the log.
    """

    model_repository: tuple[str, ...]
    id: str = "triton"
    exit_on_error: bool = True
    model_control_mode: ControlMode = ControlMode.NONE
    load_model: tuple[str, ...] = ()
    exit_timeout_secs: int = 30
    strict_readiness: bool = True
    disable_auto_complete_config: bool = False
    model_config_name: str = ""
    model_load_thread_count: int = 4
    model_load_retry_count: int = 0
    min_supported_compute_capability: float = 0.0

    allow_http: bool = True
    http_address: str = "0.0.0.0"  # noqa: S104 - Triton's default: a container's server is meant to be reached
    http_port: int = 8000
    reuse_http_port: bool = False
    http_header_forward_pattern: str = ""
    http_max_input_size: int = 64 * 1024 * 1024
    http_restricted_api: Restrictions = msgspec.field(default_factory=_nothing)

    allow_grpc: bool = True
    grpc_address: str = "0.0.0.0"  # noqa: S104 - as above
    grpc_port: int = 8001
    reuse_grpc_port: bool = False
    grpc_header_forward_pattern: str = ""
    grpc_use_ssl: bool = False
    grpc_use_ssl_mutual: bool = False
    grpc_server_cert: str = ""
    grpc_server_key: str = ""
    grpc_root_cert: str = ""
    grpc_infer_response_compression_level: str = "none"
    grpc_keepalive_time: int = 7_200_000
    grpc_keepalive_timeout: int = 20_000
    grpc_keepalive_permit_without_calls: bool = False
    grpc_http2_max_pings_without_data: int = 2
    grpc_http2_min_recv_ping_interval_without_data: int = 300_000
    grpc_http2_max_ping_strikes: int = 2
    grpc_max_connection_age: int = 0
    grpc_max_connection_age_grace: int = 0
    grpc_restricted_protocol: Restrictions = msgspec.field(default_factory=_nothing)

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
    counter_latencies: bool = True

    backend_directory: str = DEFAULT_BACKEND_DIRECTORY
    backend_config: collections.abc.Mapping[str, collections.abc.Mapping[str, str]] = msgspec.field(
        default_factory=_nothing
    )

    access_log: bool = False
    slow_request_ms: float = 0.0
    auth_token_file: str = ""
    http_idle_timeout_secs: float = 75.0
    http_body_timeout_secs: float = 60.0
    shutdown_delay_secs: float = 0.0

    notes: tuple[str, ...] = ()
