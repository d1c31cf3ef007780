"""`naiad check DIR …`: the problems that the server would find in the models of a repository, without a server.

It reads configs and the headers of model files. It loads no framework, runs no model.py and needs no GPU, so that it fits
into a commit hook or CI. It cannot check what requires running a model (a Python model's own auto-complete).
"""

import argparse
import collections
import collections.abc
import dataclasses
import json
import os
import pathlib
import sys
from typing import Any

from naiad.backends.catalog import Catalog
from naiad.config import versions
from naiad.config.problem import Problem
from naiad.config.report import as_json, render
from naiad.config.resolve import Resolution, config_file, resolve
from naiad.errors import InferenceError
from naiad.options.backend_config import backend_setting
from naiad.options.options import DEFAULT_BACKEND_DIRECTORY
from naiad.options.usage import UsageError
from naiad.repository.agents.checksum import CHECKSUM
from naiad.repository.plan import DUPLICATE
from naiad.repository.store import open_store

_ANY_GPU = range(64)
"""The GPU ids that exist by default: the machine that checks need not be the one that serves."""

_MOST_NAMES = 10
"""The names of models in the summary."""

CLEAN, PROBLEMS, USAGE = 0, 1, 2


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """A model that was checked, with its folder and what that says.

    Attributes:
        problems: everything wrong, problems with its place among the repositories included.
        agents: repository agents that may change its files, which are not checked therefore.
    """

    path: pathlib.Path
    resolution: Resolution
    problems: tuple[Problem, ...]
    agents: tuple[str, ...] = ()


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
        sys.stdout.write(json.dumps(_as_json(models), indent=2) + "\n")
    else:
        sys.stdout.write(_as_text(models, colour=_colour(options.color)))
    return PROBLEMS if any(model.problems for model in models) else CLEAN


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="naiad check",
        description="Check the models of a repository without loading them.",
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
        "--gpus",
        type=int,
        metavar="COUNT",
        help="how many GPUs the serving machine has (default: any id may exist)",
    )
    return parser


# ---- finding and checking


def _check(options: argparse.Namespace) -> list[Checked]:
    """Check every model of every folder, in the order given."""
    backend_options = _backend_options(options.backend_config)
    folders = [
        model
        for folder in dict.fromkeys(options.folders)
        for model in _models(folder, config_name=options.model_config_name)
    ]
    by_name: dict[str, list[pathlib.Path]] = collections.defaultdict(list)
    for folder in folders:
        by_name[folder.name].append(folder)
    backends = Catalog(options.backend_directory)
    checked = []
    for folder in folders:
        resolution = resolve(
            folder,
            config_name=options.model_config_name,
            auto_complete=not options.disable_auto_complete_config,
            gpus=_ANY_GPU if options.gpus is None else range(options.gpus),
            backend_options=backend_options,
            backends=backends,
        )
        agents = _changing_agents(resolution)
        problems = (
            *_duplicates(folder, by_name[folder.name]),
            *(resolution.document.problems if agents else resolution.problems),
            *(() if agents else _preflight(folder, resolution, backend_options, backends)),
        )
        checked.append(
            Checked(path=folder, resolution=resolution, problems=problems, agents=agents)
        )
    return checked


def _models(location: str, *, config_name: str) -> list[pathlib.Path]:
    """The model folders in a repository; a single one when the location is a model itself.

    Raises:
        UsageError: there is no such folder, or no model in it.
        InferenceError: it cannot be read, or is not a local folder.
    """
    store = open_store(location, option="")
    folder = pathlib.Path(location)
    if not folder.is_dir() and "://" not in location:
        what = "is a file" if folder.exists() else "does not exist"
        raise UsageError(
            f"{location} {what}: give a model repository (a folder that holds one folder per model),"
            " or the folder of one model"
        )
    if _is_model(folder, config_name=config_name):
        return [folder if folder.name else folder.resolve()]
    models = [store.checkout(name).folder for name in store.names()]
    if not models:
        raise UsageError(
            f"{location} holds no model: a repository holds one folder per model, each with a config.pbtxt"
            " and version folders such as 1/"
        )
    return models


def _is_model(folder: pathlib.Path, *, config_name: str) -> bool:
    """Whether a folder is a model rather than a repository: it has a config, or models in version folders."""
    if config_file(folder, config_name).is_file():
        return True
    if not folder.is_dir():
        return False
    names = [entry.name for entry in folder.iterdir() if entry.is_dir()]
    numbers, _ = versions.present(names)
    return any(
        entry.name.startswith("model.")
        for number in numbers
        for entry in (folder / str(number)).iterdir()
    )


def _duplicates(
    folder: pathlib.Path, same_name: collections.abc.Sequence[pathlib.Path]
) -> list[Problem]:
    """Refuse two models of one name (row 7.6)."""
    others = [str(other) for other in same_name if other is not folder]
    if not others:
        return []
    return [
        Problem(
            path=folder,
            position=None,
            message=f"{DUPLICATE}: '{folder.name}' is also {', '.join(others)}",
            suggestion="none of them would be served: rename or remove all but one",
        )
    ]


def _changing_agents(resolution: Resolution) -> tuple[str, ...]:
    """The repository agents of a model that may change its files (row 14.35). They run in a server only."""
    agents = resolution.document.message.model_repository_agents.agents
    return tuple(agent.name for agent in agents if agent.name != CHECKSUM)


def _preflight(
    folder: pathlib.Path,
    resolution: Resolution,
    backend_options: collections.abc.Mapping[str, dict[str, str]],
    backends: Catalog,
) -> list[Problem]:
    """What the backend finds that a server would find when it loads the model."""
    config = resolution.config
    backend = backends.find(config.backend) if config is not None else None
    if config is None or backend is None or backend.preflight is None:
        return []
    return backend.preflight(
        config,
        document=resolution.document,
        model_dir=folder,
        versions=resolution.versions,
        options=backend_options.get("", {}) | backend_options.get(config.backend, {}),
    )


def _backend_options(given: collections.abc.Sequence[str]) -> dict[str, dict[str, str]]:
    """The settings by backend name, "" for all (row 17.10)."""
    options: dict[str, dict[str, str]] = {}
    for text in given:
        setting = backend_setting(text)
        options.setdefault(setting.backend, {})[setting.key] = setting.value
    return options


# ---- showing


def _colour(choice: str) -> bool:
    """Whether to use colours: in a terminal, unless NO_COLOR is set (no-color.org)."""
    if choice == "auto":
        return sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    return choice == "always"


def _as_text(models: collections.abc.Sequence[Checked], *, colour: bool) -> str:
    bad = [model for model in models if model.problems]
    count = sum(len(model.problems) for model in bad)
    parts = [render(model.problems, colour=colour) for model in bad]
    good = [_good(model) for model in models if not model.problems]
    if good:
        parts.append("\n".join(good) + "\n")
    if bad:
        names = ", ".join(dict.fromkeys(model.path.name for model in bad[:_MOST_NAMES]))
        names += ", …" if len(bad) > _MOST_NAMES else ""
        parts.append(
            f"{_counted(count, 'problem')} in {len(bad)} of {_counted(len(models), 'model')}: {names}\n"
        )
    else:
        parts.append(f"{_counted(len(models), 'model')} checked, no problems\n")
    return "\n".join(parts)


def _good(model: Checked) -> str:
    if model.agents:
        return f"ok  {model.path.name}: files not checked, repository agents may change them: {', '.join(model.agents)}"
    config = model.resolution.config
    assert config is not None, "a model without problems has a config"
    numbers = model.resolution.versions
    label = "version" if len(numbers) == 1 else "versions"
    line = f"ok  {model.path.name}: {config.backend}, {label} {', '.join(map(str, numbers))}"
    line += f", max_batch_size {config.max_batch_size}"
    notes = (*model.resolution.warnings, *model.resolution.notes)
    return "\n".join([line, *(f"    note: {note}" for note in notes)])


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _as_json(models: collections.abc.Sequence[Checked]) -> dict[str, Any]:
    return {
        "models": [
            {
                "name": model.path.name,
                "path": str(model.path),
                "ok": not model.problems,
                "versions": list(model.resolution.versions),
                "warnings": [*model.resolution.warnings, *model.resolution.notes],
            }
            for model in models
        ],
        "problems": as_json(problem for model in models for problem in model.problems),
    }
