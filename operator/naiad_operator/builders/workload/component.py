"""Builds the container of a transformer or an explainer: the user's image with KServe's arguments, and with less hardening than the server has.

Its root file system is writable: images of other people write into it. Everything else that Pod Security's "restricted" asks for holds.
"""

import typing

from naiad_operator.api.parsing.service import InferenceService
from naiad_operator.api.types.component import Component
from naiad_operator.builders import names, server
from naiad_operator.builders.workload import component_files, container

Object = dict[str, typing.Any]

_GRPC = "grpc-v2"
_OLD_PROTOCOL = "--protocol"
"""The name of --predictor_protocol before KServe 0.11, whose library does not know the other one."""


def made(service: InferenceService, image: str, wanted: Component) -> Object:
    """The container of a component.

    Args:
        service: the component as a service.
        image: its image.
        wanted: the component.
    """
    predictor = service.spec.predictor
    hardened = container.hardened()
    del hardened["readOnlyRootFilesystem"]
    found: Object = {
        "name": server.CONTAINER,
        "image": image,
        "args": arguments(service, wanted),
        **component_files.of_container(service, container.own_environment(predictor)),
        "ports": [{"name": "http", "containerPort": wanted.port, "protocol": "TCP"}],
        **_probes(wanted, predictor.probes.startup.period(), predictor.probes.startup.checks()),
        "securityContext": hardened,
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
    if wanted.command is not None:
        found["command"] = list(wanted.command)
    if resources := container.amounts(service):
        found["resources"] = resources
    return found


def arguments(service: InferenceService, wanted: Component) -> list[str]:
    """The component's own arguments, and behind them those of KServe's contract that neither they nor its command have."""
    own = list(wanted.args or ())
    words = (*(wanted.command or ()), *own)
    ports = service.predictor_ports
    port = ports.grpc if wanted.protocol == _GRPC else ports.http
    contract = {
        "--model_name": wanted.model_name or service.instance,
        "--predictor_host": f"{_servers(service)}.{service.namespace}:{port}",
        "--predictor_protocol": wanted.protocol,
        "--http_port": str(wanted.port),
    }
    given = {one.partition("=")[0].replace("-", "_").replace("__", "--", 1) for one in words if one.startswith("--")}  # fmt: skip
    if _OLD_PROTOCOL in given:
        given.add("--predictor_protocol")
    for option, value in contract.items():
        if option not in given and value is not None:
            own += [option, value]
    return own


def _servers(service: InferenceService) -> str:
    """The Service in front of the servers that a component asks: a canary's transformer asks the canary."""
    of_canary = service.component != service.component_field
    return f"{service.instance}-{names.CANARY}" if of_canary else service.instance


def _probes(wanted: Component, period: int, checks: int) -> Object:
    asked: Object = {"tcpSocket": {"port": "http"}}
    if wanted.health_path is not None:
        asked = {"httpGet": {"path": wanted.health_path, "port": "http", "scheme": "HTTP"}}
    times = {"timeoutSeconds": 5, "periodSeconds": period}
    return {
        "startupProbe": {**asked, **times, "failureThreshold": checks},
        "readinessProbe": {**asked, **times, "failureThreshold": 2},
        "livenessProbe": {
            "tcpSocket": {"port": "http"},
            "timeoutSeconds": 5,
            "periodSeconds": 10,
            "failureThreshold": 6,
        },
    }
