"""Who scales KServe's predictors: classes of autoscalers, their metrics, and what Knative did."""

import pytest

from tests.operator.convert.test_kserve_pods import kserve
from tests.operator.convert.triton import RUN, Object, listed

CLASS = "serving.kserve.io/autoscalerClass"
CPU = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 55}}}  # fmt: skip
QUERY = {
    "type": "External",
    "external": {
        "metric": {"backend": "prometheus", "serverAddress": "http://prom:9090", "query": "sum(a)"},
        "authenticationRef": {"authModes": "basic", "authenticationRef": {"name": "prom"}},
        "target": {"type": "Value", "value": "5"},
    },
}


@pytest.mark.parametrize(
    ("scaler", "fields"),
    [
        ("none", {"replicas": 2}),
        ("external", {"replicas": 2, "autoscaling": {"class": "external"}}),
    ],
)
def test_a_service_that_kserve_does_not_scale(convert: RUN, scaler: str, fields: Object) -> None:
    predictor = {"minReplicas": 2, "maxReplicas": 5, "scaleTarget": 60}
    converted = convert(kserve({}, predictor, annotations={CLASS: scaler}))
    assert {key: converted.predictor.get(key) for key in fields} == fields
    assert ("autoscaling" in converted.predictor) == ("autoscaling" in fields)
    for field in ("maxReplicas", "scaleTarget"):
        assert listed(converted, f"spec.predictor.{field}: left out: {CLASS}: {scaler}"), field
    assert listed(converted, "your autoscaler's target") == (scaler == "external")


def test_metrics_of_resources(convert: RUN) -> None:
    behavior = {"scaleDown": {"stabilizationWindowSeconds": 60}}
    scaling = {"metrics": [CPU], "behavior": behavior}
    resources = {"resources": {"requests": {"cpu": "1"}}}
    source = kserve(resources, {"minReplicas": 0, "maxReplicas": 5, "autoScaling": scaling})
    converted = convert(source)
    assert converted.status == 0
    assert converted.predictor["autoscaling"] == {
        "class": "hpa",
        "minReplicas": 1,
        "maxReplicas": 5,
        "metrics": [CPU],
        "behavior": behavior,
    }
    assert listed(converted, "spec.predictor.minReplicas: became 1")


def test_a_query_becomes_a_trigger(convert: RUN) -> None:
    metrics = [CPU, QUERY, {"type": "PodMetric", "podmetric": {}}]
    source = kserve({}, {"minReplicas": 0, "maxReplicas": 5, "autoScaling": {"metrics": metrics}})
    converted = convert(source)
    assert converted.status == 0
    metadata = {"serverAddress": "http://prom:9090", "query": "sum(a)", "authModes": "basic", "threshold": "5"}  # fmt: skip
    assert converted.predictor["autoscaling"] == {
        "class": "keda",
        "minReplicas": 0,
        "maxReplicas": 5,
        "triggers": [
            {"type": "cpu", "metricType": "Utilization", "metadata": {"value": "55"}},
            {"type": "prometheus", "metricType": "Value", "metadata": metadata, "authenticationRef": {"name": "prom"}},
        ],
    }  # fmt: skip
    assert listed(converted, "autoScaling.metrics[1]: became a trigger of KEDA")
    assert listed(converted, "autoScaling.metrics[2]: not converted: PodMetric")


def test_a_metric_that_does_not_fit_leaves_the_default(convert: RUN) -> None:
    behavior = {"scaleDown": {"stabilizationWindowSeconds": 60}}
    scaling = {"metrics": [{"type": "PodMetric"}], "behavior": behavior}
    converted = convert(kserve({}, {"maxReplicas": 5, "autoScaling": scaling}))
    assert converted.predictor["autoscaling"]["behavior"] == behavior
    assert converted.predictor["autoscaling"]["metrics"][0]["resource"]["name"] == "cpu"
    converted = convert(kserve({}, {"autoScaling": scaling}))
    assert converted.predictor["replicas"] == 1
    assert listed(converted, "spec.predictor.autoScaling: left out: maxReplicas is not above")


@pytest.mark.parametrize("kind", ["Utilization", "AverageValue"])
def test_the_type_of_a_target(convert: RUN, kind: str) -> None:
    predictor = {"maxReplicas": 5, "scaleMetric": "cpu", "scaleMetricType": kind}
    said = listed(convert(kserve({}, predictor)), "scaleMetricType: left out: AverageValue: write")
    assert said == (kind == "AverageValue")
    assert not listed(convert(kserve({}, predictor)), "there is no such field")


def test_annotations_of_kserve_and_of_knative(convert: RUN) -> None:
    annotations = {
        "autoscaling.knative.dev/target": "4",
        "serving.kserve.io/deploymentMode": "Serverless",
        "serving.kserve.io/gke-accelerator": "nvidia-l4",
    }
    labels = {"networking.kserve.io/visibility": "cluster-local", "team": "a"}
    source = kserve({}, {"nodeSelector": {"pool": "a"}}, annotations=annotations, labels=labels)
    converted = convert(source)
    assert converted.predictor["nodeSelector"] == {
        "pool": "a",
        "cloud.google.com/gke-accelerator": "nvidia-l4",
    }
    [service] = converted.services
    assert service["metadata"]["labels"] == service["spec"]["labels"] == {"team": "a"}
    assert listed(converted, "left out: autoscaling.knative.dev/target: Knative does not scale")
    assert listed(converted, "left out: serving.kserve.io/deploymentMode: those of KServe")


@pytest.mark.parametrize("value", [["a"], {"a": 1}, 7])
def test_values_of_a_wrong_type_are_not_a_bug(convert: RUN, value: object) -> None:
    model = {"modelFormat": {"name": value}, "protocolVersion": value, "storage": {"parameters": {"type": value}}}  # fmt: skip
    predictor = {"maxReplicas": 2, "scaleMetric": value, "autoScaling": value, "storageUris": value}
    annotations = {CLASS: value}
    source = kserve({}, predictor, annotations=annotations)
    source["spec"]["predictor"]["triton"] |= model
    assert convert(source).lines
