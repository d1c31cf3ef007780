"""Rules that concern several options: which need each other, which exclude each other, which ports collide. Pure."""

from naiad.engine.readiness_policy import ReadinessPolicy
from naiad.options.addresses import overlap
from naiad.options.options import Options
from naiad.options.usage import UsageError
from naiad.repository.control_mode import EVERY_MODEL

_MAX_PORT = 65535


def check_together(options: Options, *, needs_port: bool = True) -> None:
    """Check the rules that concern several options (row 17.11).

    Raises:
        UsageError: two of them do not go together, or one needs another.
    """
    _check_models(options)
    _check_memory(options)
    if not options.strict_readiness and options.readiness_policy != ReadinessPolicy():
        raise UsageError(
            "--strict-readiness=false makes the server ready whatever its models do: leave it out, or --readiness-policy"
        )
    ports: list[tuple[str, int, str]] = []
    listeners = (
        ("http-port", options.allow_http, options.http_address, options.http_port),
        ("grpc-port", options.allow_grpc, options.grpc_address, options.grpc_port),
        (
            "metrics-port", options.allow_metrics,
            options.metrics_address or options.http_address, options.metrics_port,
        ),
    )  # fmt: skip
    for name, allowed, address, port in listeners:
        if port > _MAX_PORT:
            raise UsageError(f"--{name}={port}: must be at most {_MAX_PORT}")
        if not allowed or port == 0:
            continue
        for other_address, other_port, other in ports:
            if port == other_port and overlap(address, other_address):
                raise UsageError(
                    f"--{name} and --{other} are both {address}:{port}: give each a port of its own"
                )
        ports.append((address, port, name))
    if needs_port and not (options.allow_http or options.allow_grpc or options.allow_metrics):
        raise UsageError(
            "--allow-http, --allow-grpc and --allow-metrics are all off: nothing would be served"
        )
    if options.grpc_use_ssl and not (options.grpc_server_cert and options.grpc_server_key):
        raise UsageError("--grpc-use-ssl needs --grpc-server-cert and --grpc-server-key")


def _check_models(options: Options) -> None:
    """Check `--load-model` (row 7.31)."""
    if options.load_model and not options.model_control_mode.allows_load_model:
        raise UsageError(
            "Use of '--load-model' requires setting '--model-control-mode=explicit' as well: without it, all models are loaded"
        )
    if EVERY_MODEL in options.load_model and len(options.load_model) > 1:
        raise UsageError(
            "Wildcard model name '*' must be the ONLY startup model if specified at all: "
            "give --load-model=* alone, or the models by name"
        )


def _check_memory(options: Options) -> None:
    """Check that an evicted model can be loaded again."""
    if options.evicted_model_wait_secs and not options.model_memory_limit:
        raise UsageError(
            "--evicted-model-wait-secs needs --model-memory-limit: no other option unloads models"
        )
    if not (
        not options.model_memory_limit
        or options.evicted_model_wait_secs
        or options.model_control_mode.allows_requests
    ):
        raise UsageError(
            f"--model-memory-limit with --model-control-mode={options.model_control_mode.value}: nothing would load a model again that was unloaded: "
            "give --evicted-model-wait-secs as well, so that requests do, or take --model-control-mode=explicit"
        )
