"""The server's arguments of another system as fields of a predictor: what the operator writes from a field becomes the field, the rest `args`."""

import collections.abc
import pathlib
import typing

from naiad_operator.api.manifests.unvalidated import entries
from naiad_operator.builders import server, server_args
from naiad_operator.builders.server_args import Argument
from naiad_operator.convert.draft import Draft
from naiad_operator.convert.references import DEFAULT_PORTS

_OFF = frozenset(("false", "off", "0"))
_ANY_CASE = frozenset(("model-control-mode", "rate-limit"))
_DRAIN_SECONDS = 10
_LOWEST_PORT = 1024


def convert(arguments: collections.abc.Sequence[str], draft: Draft) -> list[str]:
    """Moves the arguments into the draft; what does not fit is reported.

    Returns:
        The values of --model-repository.
    """
    repositories: list[str] = []
    kept: list[str] = []
    load: dict[str, typing.Any] = {}
    for argument in map(_in_lower_case, server_args.read(arguments)):
        name, path = argument.name, draft.argument_path(argument.position)
        value = draft.filled(argument.value) if name in _FIELDS else argument.value
        problem = argument.unknown or argument.wrong or _refused(argument, draft)
        if problem:
            draft.of_container(path, f"left out: {problem.removesuffix(': leave it out')}")
        elif name in {"model-repository", "model-store"}:
            repositories.append(value)
        elif name in _FIELDS:
            _FIELDS[name](value, draft, load)
        elif argument.flag.idle:
            draft.of_container(path, f"left out: --{name} has no effect here: {argument.flag.idle}")
        elif not argument.flag.missing and not _is_default(argument):
            kept.append(argument.written)
    if load.get("mode") == "explicit" and "models" not in load:
        kept.append("--model-control-mode=explicit")
        load.clear()
    if consistent := _consistent(load, draft):
        draft.predictor.setdefault("model", {})["load"] = consistent
    if kept:
        draft.predictor["args"] = kept
    return repositories


def _in_lower_case(argument: Argument) -> Argument:
    """An option whose value Triton also takes in capitals, e.g. POLL."""
    if argument.name not in _ANY_CASE:
        return argument
    value = argument.value.lower()
    return argument._replace(value=value, wrong=server_args.refusal(argument.name, value))


def _refused(argument: Argument, draft: Draft) -> str:
    """Why an option of the server is not for a service; "" when it is."""
    name, value = argument.name, argument.value
    if name in server_args.OWNED and name not in _FIELDS:
        return f"--{name} is what the operator writes: set {server_args.OWNED[name]}"
    if name == "allow-http" and value.lower() in _OFF:
        return "--allow-http=false: the kubelet's probes use HTTP"
    if name in {"http-address", "metrics-address"} and value not in server_args.EVERY_ADDRESS:
        return f"--{name}={value}: probes and clients reach the pod by its own address"
    if name == "log-file" and not _is_writable(value, draft):
        return f"--log-file={value}: the root of the pods is read-only, and the log of a container is its standard output"
    if name == "exit-on-error" and value.lower() not in _OFF:
        return "--exit-on-error=true: the operator writes false, so that the status says which model failed; a pod whose model failed gets no requests"
    return ""


def _is_writable(path: str, draft: Draft) -> bool:
    """Whether a file is in a volume; the root of the pods is read-only."""
    folders = [str(one.get("mountPath")) for one in entries(draft.container, "volumeMounts")]
    file = pathlib.PurePosixPath(path)
    return any(file.is_relative_to(one) for one in ("/tmp", "/dev", *folders))  # noqa: S108 - the pod's own


def _is_default(argument: Argument) -> bool:
    """Whether an option says what holds anyway."""
    name, value = argument.name, argument.value.lower()
    if name in {
        "allow-http",
        "allow-grpc",
        "allow-metrics",
        "allow-gpu-metrics",
        "allow-cpu-metrics",
    }:
        return value not in _OFF
    if name == "rate-limit":
        return value == "off"
    return name in {"http-address", "grpc-address", "metrics-address", "exit-on-error"} and (
        value in server_args.EVERY_ADDRESS or value in _OFF
    )


def _port(role: str) -> collections.abc.Callable[[str, Draft, dict[str, typing.Any]], None]:
    def set_port(value: str, draft: Draft, _load: dict[str, typing.Any]) -> None:
        number = int(value) if value.isdecimal() else 0
        if "$(" in value:
            draft.of_container(
                "args",
                f"left out: --{role}-port={value}: the variable is not set here: write its value in predictor.ports.{role}",
            )
        elif number < _LOWEST_PORT:
            draft.of_container(
                "args",
                f"left out: --{role}-port={value}: a pod's user may open ports from {_LOWEST_PORT}",
            )
        elif number != DEFAULT_PORTS[role]:
            draft.predictor.setdefault("ports", {})[role] = number

    return set_port


def _exit_timeout(value: str, draft: Draft, _load: dict[str, typing.Any]) -> None:
    grace = int(value) + _DRAIN_SECONDS + server.STOP_MARGIN_SECONDS if value.isdecimal() else 0
    draft.predictor["terminationGracePeriodSeconds"] = max(grace, 60)


def _mode(value: str, _draft: Draft, load: dict[str, typing.Any]) -> None:
    if value in {"explicit", "poll"}:
        load["mode"] = value


def _models(value: str, _draft: Draft, load: dict[str, typing.Any]) -> None:
    load.setdefault("models", []).append(value)


def _poll(value: str, _draft: Draft, load: dict[str, typing.Any]) -> None:
    if value.isdecimal() and int(value):
        load["pollSeconds"] = int(value)


_FIELDS: dict[str, collections.abc.Callable[[str, Draft, dict[str, typing.Any]], None]] = {
    "http-port": _port("http"),
    "grpc-port": _port("grpc"),
    "metrics-port": _port("metrics"),
    "exit-timeout-secs": _exit_timeout,
    "model-control-mode": _mode,
    "load-model": _models,
    "repository-poll-secs": _poll,
}


def _consistent(load: dict[str, typing.Any], draft: Draft) -> dict[str, typing.Any]:
    """The load without what the mode gives no meaning."""
    mode = load.get("mode")
    for field, of in (("models", "explicit"), ("pollSeconds", "poll")):
        if field in load and mode != of:
            draft.of_container(
                "args", f"left out: model.load.{field} needs --model-control-mode={of}"
            )
            del load[field]
    return load
