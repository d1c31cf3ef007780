"""Helm, where there is one: the command on PATH, else the library that the package index has."""

import copy
import functools
import importlib.util
import json
import pathlib
import shutil
import subprocess
import tempfile
import typing

import pytest

from tests.support import fast_yaml

CHART = pathlib.Path(__file__).parent.parent.parent / "charts" / "naiad"

_COMMAND = shutil.which("helm")
_LIBRARY = importlib.util.find_spec("helm_python") is not None

AVAILABLE = _COMMAND is not None or _LIBRARY

needed = pytest.mark.skipif(
    not AVAILABLE,
    reason="Helm is not installed: install helm, or pip install helm-python-sdk",
)
"""Skips tests where there is none."""

Manifest = dict[str, typing.Any]


class HelmError(Exception):
    """Helm refused; its words are the message."""


def render(
    values: Manifest | None = None, *, name: str = "naiad", namespace: str = "naiad-system"
) -> dict[str, str]:
    """Each template's file name and its text.

    Raises:
        HelmError: a value or a template is wrong.
    """
    return (
        _by_library(values, name, namespace) if _LIBRARY else _by_command(values, name, namespace)
    )


def manifests(
    values: Manifest | None = None, *, name: str = "naiad", namespace: str = "naiad-system"
) -> list[Manifest]:
    """Every object of the chart; the caller may change them."""
    return copy.deepcopy(_manifests(json.dumps(values), name, namespace))


@functools.cache
def _manifests(values: str, name: str, namespace: str) -> list[Manifest]:
    """Rendered and read once for each text of values: many tests look at the same chart."""
    rendered = render(json.loads(values), name=name, namespace=namespace)
    return [
        manifest
        for file, text in sorted(rendered.items())
        if file.endswith(".yaml")
        for manifest in _read(text)
    ]


@functools.cache
def _read(text: str) -> list[Manifest]:
    """Read once for each text: most files do not depend on the values, and reading the definitions takes longer than rendering all of them."""
    return list(fast_yaml.read(text))


def _by_library(values: Manifest | None, name: str, namespace: str) -> dict[str, str]:
    import helm_python  # noqa: PLC0415 - 80 MB that only a rendering pays

    try:
        with helm_python.Chart.load(CHART) as chart:
            chart.validate_schema(chart.merge_values(values))
            rendered: dict[str, str] = chart.render(values, name=name, namespace=namespace)
    except helm_python.HelmError as error:
        raise HelmError(str(error)) from error
    return {pathlib.PurePath(path).name: text for path, text in rendered.items()}


def _by_command(values: Manifest | None, name: str, namespace: str) -> dict[str, str]:
    assert _COMMAND is not None
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(values or {}, file)
        file.flush()
        command = [
            _COMMAND,
            "template",
            name,
            str(CHART),
            "--namespace",
            namespace,
            "--values",
            file.name,
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise HelmError(done.stderr)
    found: dict[str, str] = {}
    for document in done.stdout.split("\n---\n"):
        source, _, text = document.removeprefix("---\n").partition("\n")
        file_name = pathlib.PurePath(source.removeprefix("# Source: ")).name
        found[file_name] = found.get(file_name, "") + "---\n" + text + "\n"
    return found
