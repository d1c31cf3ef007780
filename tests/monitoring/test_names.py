"""Dashboard, alerts and adapter rules name only metrics that exist."""

import collections.abc
import typing

import pytest
import yaml

from naiad_operator.api.parsing import service
from naiad_operator.builders import build, server
from tests.monitoring import files
from tests.support import manifests

EXISTING = files.existing()


def expressions() -> collections.abc.Iterator[tuple[str, str]]:
    for panel in files.DASHBOARD["panels"]:
        for target in panel.get("targets", ()):
            yield f"panel {panel['title']} {target['refId']}", target["expr"]
    for variable in files.DASHBOARD["templating"]["list"]:
        if variable["type"] == "query":
            yield f"variable {variable['name']}", variable["definition"]
    for rule in files.RULES:
        yield f"alert {rule['alert']}", rule["expr"]
    for rule in files.ADAPTER["rules"]["custom"]:
        yield f"adapter {rule['name']['as']}", rule["metricsQuery"] + rule["seriesQuery"]


EXPRESSIONS = dict(expressions())


@pytest.mark.parametrize("where", EXPRESSIONS)
def test_every_metric_that_is_named_exists(where: str) -> None:
    assert files.named(EXPRESSIONS[where]) - EXISTING == set()


def test_a_name_that_does_not_exist_would_be_found() -> None:
    assert files.named("rate(nv_inference_reqest_success[5m])") - EXISTING


def test_the_adapter_serves_what_autoscalers_of_the_operator_ask_for() -> None:
    served = {rule["name"]["as"] for rule in files.ADAPTER["rules"]["custom"]}
    scaling = {"class": "hpa", "queueTimeMs": 5, "pendingRequests": 16}
    resource = manifests.resource(autoscaling=scaling)
    children = build(service.parse(resource), manifests.facts())
    hpa = next(child for child in children if child["kind"] == "HorizontalPodAutoscaler")
    asked = {metric["pods"]["metric"]["name"] for metric in hpa["spec"]["metrics"]}
    assert asked == served == {server.AVERAGE_QUEUE_METRIC, server.PENDING_METRIC}


def test_a_name_that_the_adapter_matches_is_the_series_that_it_asks_for() -> None:
    for rule in files.ADAPTER["rules"]["custom"]:
        assert rule["name"]["matches"] == f"^{rule['seriesQuery'].partition('{')[0]}$"


def test_every_alert_says_what_happens_and_what_to_do() -> None:
    for rule in files.RULES:
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert rule["annotations"].keys() == {"summary", "description"}


def test_panels_have_ids_of_their_own_and_lie_beside_each_other() -> None:
    panels = files.DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    cells: set[tuple[int, int]] = set()
    for panel in panels:
        place: dict[str, typing.Any] = panel["gridPos"]
        taken = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert place["x"] + place["w"] <= 24
        assert not taken & cells, panel["title"]
        cells |= taken


def test_the_files_are_what_they_are_called() -> None:
    assert files.ALERTS["kind"] == "PrometheusRule"
    assert files.DASHBOARD["title"] == "Naiad"
    for path in files.FOLDER.glob("*.yaml"):
        assert yaml.safe_load(path.read_text())
