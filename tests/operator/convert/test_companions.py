"""The objects beside a Triton workload: Services, autoscalers, Ingresses."""

import typing

import pytest

from tests.operator.convert.triton import RUN, Object, deployment, listed, service


def test_a_load_balancer(convert: RUN) -> None:
    ports = [{"port": 80, "targetPort": "web", "nodePort": 30080}, {"port": 8002}, {"port": 5432}]
    spec = {"type": "LoadBalancer", "externalTrafficPolicy": "Local", "ports": ports}
    source = deployment({"ports": [{"containerPort": 8000, "name": "web"}]})
    converted = convert(source, service(spec, name="front", annotations={"a": "b"}))
    assert converted.services[0]["spec"]["service"] == {
        "type": "LoadBalancer",
        "annotations": {"a": "b"},
        "externalTrafficPolicy": "Local",
        "nodePorts": {"http": 30080},
    }
    assert listed(converted, "metadata.name: clients find the service as demo in place of front")
    assert listed(
        converted, "clients use port 8000 for http in place of 80; the metrics port is open inside"
    )
    assert listed(converted, "port 5432 does not lead to the server")


def test_protocols_and_annotations_of_a_service(convert: RUN) -> None:
    http = {"port": 8000, "appProtocol": "http"}
    grpc = {"port": 8001, "appProtocol": "grpc"}
    source = service({"ports": [http, grpc, {"port": 8002, "appProtocol": "http"}]}, annotations={"prometheus.io/scrape": "true"})  # fmt: skip
    converted = convert(deployment(), source)
    assert converted.services[0]["spec"]["service"] == {"appProtocols": {"grpc": "grpc"}}
    assert listed(converted, "metadata.annotations: left out: prometheus.io/scrape: write spec.")


def test_fields_of_a_load_balancer_are_left_out_inside_a_cluster(convert: RUN) -> None:
    spec = {"externalTrafficPolicy": "Local", "sessionAffinity": "ClientIP", "ports": [{"port": 8000}]}  # fmt: skip
    converted = convert(deployment(), service(spec))
    assert converted.services[0]["spec"]["service"] == {"sessionAffinity": "ClientIP"}


def test_a_service_of_another_workload_or_namespace_is_passed_over(convert: RUN) -> None:
    other = service({"selector": {"app": "other"}, "type": "NodePort"}, name="other")
    elsewhere = service({"type": "NodePort"}, name="elsewhere", namespace="x")
    converted = convert(deployment(), other, elsewhere)
    assert "service" not in converted.services[0]["spec"]
    assert listed(converted, "Service other: not converted: it belongs to none of the objects")
    assert listed(converted, "Service elsewhere: not converted")


def autoscaler(**spec: typing.Any) -> Object:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "demo"}
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "demo"},
        "spec": {"scaleTargetRef": target, "minReplicas": 2, "maxReplicas": 8, **spec},
    }


def pods_metric(name: str, value: str) -> Object:
    target = {"type": "AverageValue", "averageValue": value}
    return {"type": "Pods", "pods": {"metric": {"name": name}, "target": target}}


def test_an_autoscaler_over_the_queue(convert: RUN) -> None:
    gpu = pods_metric("DCGM_FI_DEV_GPU_UTIL", "80")
    metrics = [pods_metric("avg_time_queue_us", "50k"), pods_metric("nv_inference_pending_request_count", "16"), gpu]  # fmt: skip
    converted = convert(deployment(spec={"replicas": 2}), autoscaler(metrics=metrics))
    assert converted.predictor["autoscaling"] == {
        "class": "hpa", "minReplicas": 2, "maxReplicas": 8, "queueTimeMs": 50, "pendingRequests": 16, "metrics": [gpu],
    }  # fmt: skip
    assert "replicas" not in converted.predictor
    assert listed(converted, "spec.metrics[2]: copied: see that it counts the new pods")


def test_an_ingress_with_both_protocols(convert: RUN) -> None:
    def rule(host: str, port: Object, path: str = "/") -> Object:
        backend = {"service": {"name": "demo", "port": port}}
        return {"host": host, "http": {"paths": [{"path": path, "backend": backend}]}}

    ports = [{"name": "http", "port": 8000}, {"name": "grpc", "port": 8001}]
    ingress = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "Ingress",
        "metadata": {"name": "demo", "annotations": {"a": "b"}},
        "spec": {
            "ingressClassName": "nginx",
            "rules": [
                rule("a.example.com", {"name": "http"}, "/models"),
                rule("b.example.com", {"number": 8001}),
                rule("c.example.com", {"number": 8000}),
            ],
        },
    }
    converted = convert(deployment(), service({"ports": ports}), ingress)
    assert converted.services[0]["spec"]["ingress"] == {
        "enabled": True,
        "className": "nginx",
        "host": "a.example.com",
        "annotations": {"a": "b"},
        "path": "/models",
        "grpcHost": "b.example.com",
        "grpcAnnotations": {"a": "b"},
    }
    assert listed(
        converted, "not converted: c.example.com/ of demo: a service has one host per protocol"
    )


def test_a_service_monitor_selects_the_labels_of_a_service(convert: RUN) -> None:
    """NVIDIA's charts have one Service for requests and one for metrics."""
    ports = [{"name": "metrics", "port": 8080, "targetPort": 8002}]
    annotations = {"alpha.monitoring.coreos.com/non-namespaced": "true"}
    metrics = service({"ports": ports}, name="demo-metrics", labels={"app": "demo-metrics"}, annotations=annotations)  # fmt: skip
    monitor: Object = {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "ServiceMonitor",
        "metadata": {"name": "demo", "labels": {"release": "prometheus"}},
        "spec": {
            "selector": {"matchLabels": {"app": "demo-metrics"}},
            "endpoints": [{"port": "metrics", "interval": "30s"}],
        },
    }
    converted = convert(deployment(), metrics, monitor)
    spec = converted.services[0]["spec"]
    assert spec["monitoring"] == {
        "serviceMonitor": True,
        "interval": "30s",
        "labels": {"release": "prometheus"},
    }
    assert "service" not in spec
    assert listed(converted, "kind: left out: demo-metrics has the metrics port only")
    monitor["spec"]["selector"] = {"matchLabels": {"app": "demo"}}
    converted = convert(deployment(), metrics, monitor)
    assert listed(converted, "ServiceMonitor demo: not converted: it belongs to none of")


@pytest.mark.parametrize(
    ("namespace", "selector", "is_read"),
    [
        ("monitoring", {"matchNames": ["models"]}, True),
        ("monitoring", {"any": True}, True),
        ("monitoring", {"matchNames": ["other"]}, False),
        ("monitoring", None, False),
        ("models", None, True),
        (None, None, True),
    ],
)
def test_a_monitor_in_another_namespace(
    convert: RUN, namespace: str | None, selector: Object | None, *, is_read: bool
) -> None:
    source = deployment()
    source["metadata"]["namespace"] = "models"
    monitor = {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PodMonitor",
        "metadata": {"name": "demo", "namespace": namespace},
        "spec": {"selector": {"matchLabels": {"app": "demo"}}, "namespaceSelector": selector},
    }
    assert ("monitoring" in convert(source, monitor).services[0]["spec"]) == is_read


def test_two_services_become_one(convert: RUN) -> None:
    http = service({"type": "LoadBalancer", "ports": [{"port": 8000}]}, name="http")
    grpc = service({"type": "NodePort", "ports": [{"port": 8001, "nodePort": 30001}]}, name="grpc")
    converted = convert(deployment(), http, grpc)
    assert converted.services[0]["spec"]["service"] == {
        "type": "LoadBalancer",
        "nodePorts": {"grpc": 30001},
    }
    assert listed(converted, "spec.type: left out: NodePort: there is one Service for both")


def test_an_ingress_without_a_host_and_one_of_an_old_api(convert: RUN) -> None:
    old = {"serviceName": "demo", "servicePort": 8001}
    ingress: Object = {
        "apiVersion": "networking.k8s.io/v1beta1",
        "kind": "Ingress",
        "metadata": {"name": "demo"},
        "spec": {"rules": [{"host": "a.example.com", "http": {"paths": [{"backend": old}]}}]},
    }
    ports = {"ports": [{"port": 8001}]}
    converted = convert(deployment(), service(ports), ingress)
    assert converted.services[0]["spec"]["ingress"]["grpcHost"] == "a.example.com"
    backend = {"service": {"name": "demo", "port": {"number": 8000}}}
    ingress["spec"] = {"defaultBackend": backend, "ingressClassName": "gce"}
    ingress["metadata"]["annotations"] = {"kubernetes.io/ingress.global-static-ip-name": "a"}
    converted = convert(deployment(), service(ports), ingress)
    assert "ingress" not in converted.services[0]["spec"]
    assert listed(converted, "spec.rules: not converted: / of demo: for every host: write a host")
    assert listed(converted, "metadata.annotations: left out: kubernetes.io/ingress.global-static")
    assert listed(converted, "spec.ingressClassName: left out: gce: without a host")


def test_an_ingress_with_paths_to_other_services(convert: RUN) -> None:
    """The port of the Service decides which protocol a host has."""

    def rule(host: str, name: str, port: int) -> Object:
        backend = {"service": {"name": name, "port": {"number": port}}}
        return {"host": host, "http": {"paths": [{"path": "/", "backend": backend}]}}

    rules = [rule("a.example.com", "frontend", 80), rule("b.example.com", "demo", 50051)]
    ingress = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "Ingress",
        "metadata": {"name": "demo"},
        "spec": {"rules": rules},
    }
    front = service({"ports": [{"port": 50051, "targetPort": 8001}]})
    converted = convert(deployment(), front, ingress)
    assert converted.services[0]["spec"]["ingress"] == {
        "enabled": True,
        "grpcHost": "b.example.com",
    }
    assert listed(converted, "a.example.com/ of frontend: it does not lead to these pods")


def test_a_second_autoscaler_and_a_second_monitor_are_said(convert: RUN) -> None:
    second = autoscaler(metrics=[pods_metric("other", "1")])
    converted = convert(deployment(), autoscaler(maxReplicas=4), second)
    assert converted.predictor["autoscaling"]["maxReplicas"] == 4
    assert listed(converted, "kind: left out: another autoscaler of this workload")
    scaled = {"kind": "ScaledObject", "metadata": {"name": "a"}, "spec": {"scaleTargetRef": {"name": "demo"}, "cooldownPeriod": 9}}  # fmt: skip
    converted = convert(deployment(), autoscaler(), scaled)
    assert converted.predictor["autoscaling"]["class"] == "hpa"
    assert listed(converted, "kind: left out: another autoscaler of this workload")
    spec = {"selector": {"matchLabels": {"app": "demo"}}}
    monitors = [{"kind": "PodMonitor", "metadata": {"name": one}, "spec": spec} for one in "ab"]
    assert listed(convert(deployment(), *monitors), "kind: left out: another monitor became")


def test_certificates_that_an_ingress_cannot_keep_are_said(convert: RUN) -> None:
    backend = {"service": {"name": "demo", "port": {"number": 8000}}}
    rule = {"host": "a.example.com", "http": {"paths": [{"path": "/", "backend": backend}]}}
    ingress: Object = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "Ingress",
        "metadata": {"name": "demo"},
        "spec": {"rules": [rule], "tls": [{"secretName": "a"}, {"secretName": "b"}]},
    }
    converted = convert(deployment(), service({"ports": [{"port": 8000}]}), ingress)
    assert converted.services[0]["spec"]["ingress"]["tls"] == {"secretName": "a"}
    assert listed(converted, "spec.tls: left out: b: ingress.tls.secretName, a, is for both hosts")
    ingress["spec"]["tls"] = [{"hosts": ["a.example.com"]}]
    converted = convert(deployment(), service({"ports": [{"port": 8000}]}), ingress)
    assert "tls" not in converted.services[0]["spec"]["ingress"]
    assert listed(converted, "spec.tls: left out: it names no Secret")


def test_a_queue_time_that_is_rounded_is_said(convert: RUN) -> None:
    """50 microseconds are the default of NVIDIA's chart."""
    converted = convert(deployment(), autoscaler(metrics=[pods_metric("avg_time_queue_us", "50")]))
    assert converted.predictor["autoscaling"]["queueTimeMs"] == 1
    assert listed(converted, "became autoscaling.queueTimeMs: 1 (rounded from 50 µs:")
    converted = convert(deployment(), autoscaler(metrics=[pods_metric("avg_time_queue_us", "5k")]))
    assert not listed(converted, "rounded")


def test_a_queue_time_in_milliseconds_is_the_field(convert: RUN) -> None:
    converted = convert(deployment(), autoscaler(metrics=[pods_metric("avg_time_queue_ms", "50")]))
    assert converted.predictor["autoscaling"]["queueTimeMs"] == 50
    assert "metrics" not in converted.predictor["autoscaling"]
    assert listed(converted, "became autoscaling.queueTimeMs: 50; ")
    assert listed(converted, "spec.monitoring.podMonitor: true")


def test_a_number_of_pods_is_written_only_where_one_was(convert: RUN) -> None:
    given = deployment()
    given["spec"].pop("replicas", None)
    assert "replicas" not in convert(given).predictor
    given["spec"]["replicas"] = 1
    assert convert(given).predictor["replicas"] == 1


def test_an_object_without_a_kind_is_named_as_such(convert: RUN) -> None:
    converted = convert(deployment(), {"apiVersion": "v1"})
    assert listed(converted, "an object without a kind: not converted: Kubernetes takes no such")
