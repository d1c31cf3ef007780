"""Checks `args`: options that the server does not know or refuses, and those that a field of the service is for.

What is wrong is an error where the server's version is known. The server of another image may have other options, so of these it is a warning.
"""

import typing

from naiad_operator.api.rules import spec
from naiad_operator.api.rules.cel import matches
from naiad_operator.builders import server, server_args
from naiad_operator.builders.server_args import Argument
from naiad_operator.check.finding import Finding, Findings, error, texts, warning
from naiad_operator.versions import OWN, Version, parse

_FIELDS = {
    "model-repository": "model.storageUri, or model.repositories for several",
    "model-store": "model.storageUri, or model.repositories for several",
    "model-control-mode": "model.load.mode",
    "load-model": "model.load.models, with mode: explicit",
    "repository-poll-secs": "model.load.pollSeconds, with mode: poll",
}
"""Options that the operator also writes, and the field from which."""


def findings(arguments: typing.Any, path: str, version: Version | None) -> Findings:
    """What is wrong with the arguments of a server.

    Args:
        arguments: the value of the field `args`.
        path: the field.
        version: the server's version; None when it is not known.
    """
    for argument in server_args.read(texts(arguments)):
        here = f"{path}[{argument.position}]"
        if matches(argument.words[0], spec.OWN_OPTIONS_PATTERN):
            continue  # an error of the rule
        if argument.near in server_args.OWNED:
            message = f"the server has no option {argument.words[0].partition('=')[0]}: for --{argument.near}, write {server_args.OWNED[argument.near]} instead"
            yield _of_version(here, message, version)
        elif argument.unknown:
            yield _of_version(here, argument.unknown, version)
        else:
            yield from _of_known(argument, here, version)


def _of_known(argument: Argument, here: str, version: Version | None) -> Findings:
    since = parse(argument.flag.since) or server.OLDEST_VERSION
    if version is not None and version < since:
        message = f"--{argument.name} needs a server of version {since} or newer, and this one is {version}: leave it out, or write a newer image"
        yield error(here, message)
    elif argument.wrong and (version is None or version >= OWN):
        yield _of_version(here, argument.wrong, version)
    elif argument.name == "allow-http" and argument.value.lower() in {"false", "off", "0"}:
        yield error(
            here, "the kubelet's probes use HTTP, so that no pod would become ready: leave it out"
        )
    elif argument.name == "http-restricted-api" and "health" in _restricted(argument.value):
        message = f"{argument.written}: the kubelet's probes send no header, so that no pod would become ready: leave health out"
        yield error(here, message)
    elif (
        argument.name in {"http-address", "metrics-address"}
        and argument.value not in server_args.EVERY_ADDRESS
    ):
        yield error(
            here,
            f"{argument.written}: probes and clients reach the pod by its own address: leave it out",
        )
    elif argument.name == "allow-metrics" and argument.value.lower() in {"false", "off", "0"}:
        yield warning(
            here,
            "the operator reads the models' states from the metrics port: without it the condition ModelsLoaded stays Unknown",
        )
    elif argument.name in _FIELDS:
        message = f"--{argument.name} is what the operator writes from predictor.{_FIELDS[argument.name]}: write it there"
        yield warning(here, message)


def _restricted(value: str) -> list[str]:
    """The groups of requests that a value of --http-restricted-api restricts, as in health,metadata:header=value."""
    return [name.strip() for name in value.partition(":")[0].split(",")]


def _of_version(here: str, message: str, version: Version | None) -> Finding:
    """A problem with an option, if it is one of this release's server."""
    if version is not None and server.OLDEST_VERSION <= version <= OWN:
        return error(here, message)
    other = f"a server of version {version}" if version is not None else "the server in this image"
    return warning(here, f"{message} (as of server {OWN}; {other} may have other options)")
