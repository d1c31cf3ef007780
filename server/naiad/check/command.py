"""The command `naiad check`: its arguments and its exit status.

By default it reads configs, code and the headers of model files, loads no framework, runs no code of a model and needs no GPU, so that it fits
into a commit hook or CI. With `--load` it loads every model as the server does.
"""

import argparse
import collections.abc
import contextlib
import json
import pathlib
import sys

from naiad.backends.catalog import Catalog
from naiad.check.checked import Checker
from naiad.check.checked_model import Checked
from naiad.check.show import in_colour, json_of, text_of
from naiad.config.checks.features import ServerFeatures
from naiad.errors import InferenceError
from naiad.hosts.worker.placement import HostPolicy
from naiad.metrics.devices import GpuMonitor
from naiad.options.backend_config import backend_setting
from naiad.options.command_parser import CommandParser
from naiad.options.host_policy import host_policy
from naiad.options.options import DEFAULT_AGENT_DIRECTORY, DEFAULT_BACKEND_DIRECTORY
from naiad.options.rate_limit import rate_limit_mode, rate_limit_resource
from naiad.options.usage import UsageError
from naiad.repository.agents.catalog import AgentCatalog
from naiad.scheduling.rate_limiter.keys import ResourceKey

_ANY_GPU = range(64)
"""The GPU ids that exist by default: the machine that checks need not be the one that serves."""

CLEAN, PROBLEMS, USAGE = 0, 1, 2


def main(arguments: collections.abc.Sequence[str]) -> int:
    """Run the command with the words after `naiad check`.

    Returns:
        0 when every model is clean, 1 when there are problems, 2 when the command itself is wrong.
    """
    parser = _parser()
    try:
        options = parser.parse_args(arguments)
    except SystemExit as exit_:  # argparse has said why, or shown its help
        return USAGE if exit_.code else CLEAN
    try:
        models = _check(options)
    except (UsageError, InferenceError) as error:
        sys.stderr.write(f"naiad check: {error}\n")
        return USAGE
    if options.format == "json":
        sys.stdout.write(json.dumps(json_of(models), indent=2) + "\n")
    else:
        sys.stdout.write(text_of(models, colour=in_colour(options.color)))
    return PROBLEMS if any(model.problems for model in models) else CLEAN


def _parser() -> argparse.ArgumentParser:
    parser = CommandParser(
        prog="naiad check",
        description="Find what the server would refuse in the models of a repository.",
        epilog="Exit status: 0 every model is clean, 1 there are problems, 2 the command is wrong.",
    )
    parser.add_argument(
        "folders", nargs="+", metavar="DIR", help="a model repository, or the folder of one model"
    )
    parser.add_argument("--format", choices=("text", "json"), default="text")
    parser.add_argument("--color", choices=("auto", "always", "never"), default="auto")
    parser.add_argument(
        "--model-config-name",
        default="",
        metavar="NAME",
        help="read configs/NAME.pbtxt where a model has it",
    )
    parser.add_argument(
        "--disable-auto-complete-config",
        action="store_true",
        help="take what a config leaves out as a problem, as the server does with this option",
    )
    parser.add_argument(
        "--backend-directory",
        default=DEFAULT_BACKEND_DIRECTORY,
        metavar="DIR",
        type=pathlib.Path,
        help="as the server's option",
    )
    parser.add_argument(
        "--backend-config",
        action="append",
        default=[],
        metavar="BACKEND,KEY=VALUE",
        help="as the server's option; may be given several times",
    )
    parser.add_argument(
        "--repoagent-directory",
        default=DEFAULT_AGENT_DIRECTORY,
        metavar="DIR",
        type=pathlib.Path,
        help="as the server's option",
    )
    parser.add_argument(
        "--host-policy",
        action="append",
        default=[],
        metavar="NAME,SETTING=VALUE",
        help="as the server's option; may be given several times",
    )
    parser.add_argument(
        "--rate-limit",
        default="off",
        metavar="off|execution_count",
        help="as the server's option",
    )
    parser.add_argument(
        "--rate-limit-resource",
        action="append",
        default=[],
        metavar="NAME:COUNT[:DEVICE]",
        help="as the server's option; may be given several times",
    )
    parser.add_argument(
        "--model-namespacing",
        action="store_true",
        help="models of several repositories may have the same name, as with the server's option",
    )
    parser.add_argument(
        "--batch-strategy-libraries",
        choices=("true", "false"),
        default="false",
        help="whether the server loads batching strategies that are libraries in C (default false)",
    )
    parser.add_argument(
        "--gpu-fallback",
        default="refuse",
        choices=("refuse", "cpu"),
        help="as the server's option",
    )
    parser.add_argument(
        "--load",
        action="store_true",
        help="also load every model as the server does, which runs its code, and unload it",
    )
    parser.add_argument(
        "--elsewhere",
        action="store_true",
        help="another machine serves the models: packages and locales that this one lacks are notes",
    )
    parser.add_argument(
        "--gpus",
        type=int,
        metavar="COUNT",
        help="how many GPUs the serving machine has (default: any id may exist; with --load or --gpu-fallback=cpu: those of this machine)",
    )
    return parser


def _check(options: argparse.Namespace) -> list[Checked]:
    backend_options = _backend_options(options.backend_config)
    backends = Catalog(options.backend_directory)
    auto_complete = not options.disable_auto_complete_config
    policies: dict[str, HostPolicy] = {}
    for text in options.host_policy:
        policies.update([host_policy("host-policy", text, policies)])
    features = ServerFeatures(
        rate_limiter=rate_limit_mode("rate-limit", options.rate_limit),
        gpu_fallback=options.gpu_fallback == "cpu",
        strategy_libraries=options.batch_strategy_libraries == "true",
        host_policies=frozenset(policies),
    )
    resources = _resources(options.rate_limit_resource)
    if options.gpus is not None:
        gpus: collections.abc.Sequence[int] = range(options.gpus)
    elif options.load or options.gpu_fallback == "cpu":
        gpus = [gpu.index for gpu in GpuMonitor().open()]
    else:
        gpus = _ANY_GPU
    with contextlib.ExitStack() as end:
        trial = None
        if options.load:
            from naiad.check.loading import TrialLoader  # noqa: PLC0415 - twice as much to import, for `--load` only

            trial = end.enter_context(
                TrialLoader(
                    backends=backends,
                    backend_options=backend_options,
                    gpus=gpus,
                    auto_complete=auto_complete,
                    features=features,
                )
            )
        return Checker(
            config_name=options.model_config_name,
            auto_complete=auto_complete,
            gpus=gpus,
            backends=backends,
            backend_options=backend_options,
            agents=AgentCatalog(options.repoagent_directory),
            elsewhere=options.elsewhere,
            trial=trial,
            features=features,
            resources=resources,
            namespaces=options.model_namespacing,
        ).check(options.folders)


def _resources(given: collections.abc.Sequence[str]) -> dict[ResourceKey, int]:
    resources: dict[ResourceKey, int] = {}
    for text in given:
        key, amount = rate_limit_resource("rate-limit-resource", text)
        resources[key] = min(amount, resources.get(key, amount))
    return resources


def _backend_options(given: collections.abc.Sequence[str]) -> dict[str, dict[str, str]]:
    """The settings by backend name, "" for all (row 17.10)."""
    options: dict[str, dict[str, str]] = {}
    for text in given:
        setting = backend_setting(text)
        options.setdefault(setting.backend, {})[setting.key] = setting.value
    return options
