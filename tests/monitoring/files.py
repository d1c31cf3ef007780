"""The files of manifests/monitoring, and which metrics there are for them to name."""

import json
import pathlib
import re
import typing

import yaml

from naiad.metrics import families
from naiad_operator import metrics as operator_metrics

FOLDER = pathlib.Path(__file__).parent.parent.parent / "manifests" / "monitoring"

DASHBOARD: typing.Any = json.loads((FOLDER / "dashboard.json").read_text())
ALERTS: typing.Any = yaml.safe_load((FOLDER / "alerts.yaml").read_text())
ADAPTER: typing.Any = yaml.safe_load((FOLDER / "prometheus-adapter-values.yaml").read_text())

RULES: list[dict[str, typing.Any]] = [
    rule for group in ALERTS["spec"]["groups"] for rule in group["rules"]
]

_METRIC = re.compile(r"\b(?:nv|naiad)_[a-z0-9_]+\b")
_SUFFIXES = ("_bucket", "_sum", "_count")


def named(expression: str) -> set[str]:
    """The metrics that an expression names."""
    return set(_METRIC.findall(expression))


def operator_page() -> str:
    """A metrics page of the operator."""
    gauges = operator_metrics.Gauges(
        queue_depth=0,
        queue_oldest=0.0,
        queue_failing=0,
        conditions={("Ready", "True", "Ready"): 1},
        children=0,
        upgrades={"waiting": 0},
        watch_restarts={},
        unwatched={},
        leader=True,
    )
    return operator_metrics.page(operator_metrics.Metrics(), gauges)


def existing() -> set[str]:
    """Every series name of a server and of the operator."""
    names = set()
    for family in vars(families).values():
        if isinstance(family, families.Family):
            histogram = family.type == "histogram"
            names |= {family.name + suffix for suffix in _SUFFIXES} if histogram else {family.name}
    for line in operator_page().splitlines():
        match line.split():
            case ["#", "TYPE", name, "histogram"]:
                names |= {name + suffix for suffix in _SUFFIXES}
            case ["#", "TYPE", name, _]:
                names.add(name)
            case _:
                pass
    return names
