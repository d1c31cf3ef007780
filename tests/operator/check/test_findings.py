"""What the schema and the rules do not find, and that everything is said in one round."""

import typing

import pytest

from tests.operator.check.lines import RUN, fields
from tests.support import manifests


def test_types_values_arguments_stores_and_amounts_are_one_round(check: RUN) -> None:
    wrong = manifests.resource(
        model={"storageUri": "ftp://host/models"},
        replicas="two",
        args=["--http-prot=9000"],
        resources={"requests": {"memory": "9Gi"}, "limits": {"memory": "8Gi"}},
        podTemplate={"containers": []},
    )
    wrong["metadata"]["name"] = "Demo"
    status, lines = check(wrong)
    assert status == 1
    assert fields(lines) == [
        "metadata.name",
        "spec.predictor.model.storageUri",
        "spec.predictor.replicas",
        "spec.predictor.args[0]",
        "spec.predictor.resources.requests[memory]",
        "spec.predictor.podTemplate.containers",
    ]
    assert lines[-1] == "6 problems"


def test_what_several_builders_refuse_is_said_at_once(check: RUN) -> None:
    _, lines = check(
        manifests.resource(podTemplate={"containers": []}, autoscaling={"class": "keda", "queueTimeMs": 1}),
        options=["--prometheus-address", ""],
    )  # fmt: skip
    assert sorted(fields(lines)) == [
        "spec.predictor.autoscaling.prometheusAddress",
        "spec.predictor.podTemplate.containers",
    ]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--log-verbos=1"], ""),
        (["--log-verbose", "1", "--log-info"], ""),
        (["--http-prot=9000"], "the server has no option --http-prot: for --http-port, write predictor.ports.http instead"),
        (["--log-verbosity=1"], "the server has no option --log-verbosity: did you mean --log-verbose?"),
        (["--grpc-max=1"], "--grpc-max is ambiguous: it could be --grpc-max-response-pool-size, "),
        (["--log-verbose 1"], "'--log-verbose 1' is one word: write --log-verbose=1"),
        (["log-verbose=1"], "'log-verbose=1': options begin with two dashes: write --log-verbose=1"),
        (["tritonserver"], "'tritonserver' is the command, which the operator writes"),
        (["--log-format=xml"], "--log-format=xml: expected one of default, ISO8601, json"),
        (["--model-load-thread-count=0"], "--model-load-thread-count=0: expected at least 1"),
        (["--model-load-thread-count=$(THREADS)"], ""),
        (["--id"], "--id needs a value (string): write --id=VALUE"),
        (["--allow-sagemaker=true"], "the server does not support the SageMaker front end yet: leave it out"),
        (["--allow-client-shm=true", "--client-shm-owner=same"], ""),
        (["--allow-sagemaker=false", "--grpc-infer-thread-count=8"], ""),
        (["--allow-http=false"], "the kubelet's probes use HTTP"),
        (["--http-restricted-api=metadata,health:admin-key=x"], "the kubelet's probes send no header"),
        (["--http-restricted-api=model-repository:health=x"], ""),
        (["--http-address=127.0.0.1"], "reach the pod by its own address"),
        (["--http-address=0.0.0.0"], ""),
        (["--model-control-mode=poll"], "warning: --model-control-mode is what the operator writes from predictor.model.load.mode: write it there"),
        (["--allow-metrics=off"], "warning: the operator reads the models' states from the metrics port"),
    ],
)  # fmt: skip
def test_arguments(check: RUN, args: list[str], message: str) -> None:
    status, lines = check(manifests.resource(args=args))
    assert status == (1 if message and not message.startswith("warning") else 0)
    if message:
        prefix = "warning: " if status == 0 else ""
        assert lines[0].startswith(f"{prefix}spec.predictor.args[0]: ")
        assert message.removeprefix("warning: ") in lines[0]
    else:
        assert lines == ["1 service, 2 objects: valid"]


@pytest.mark.parametrize(
    ("version", "is_warning"),
    [
        ({"image": "example.com/ours:latest"}, True),
        ({"image": "example.com/naiad-server:9.0.0"}, True),
        ({"serverVersion": "9.0.0"}, True),
        ({"image": "example.com/naiad-server:0.1.0"}, False),
        ({"image": "example.com/ours:latest", "serverVersion": "0.2.0"}, False),
    ],
)
def test_the_options_of_a_server_that_is_not_known_are_a_warning(
    check: RUN, version: dict[str, str], *, is_warning: bool
) -> None:
    model = {"storageUri": "pvc://models"}
    status, lines = check(manifests.resource(model=model, args=["--magic=1"], **version))
    assert (status, lines[0].startswith("warning: ")) == (0 if is_warning else 1, is_warning)
    assert ("may have other options" in lines[0]) == is_warning
    if is_warning:
        assert lines[-1] == "1 service, 2 objects, 1 warning: valid"


def test_an_older_server_lacks_the_options_that_came_later(check: RUN) -> None:
    older = {"model": {"storageUri": "pvc://models"}, "serverVersion": "0.1.0"}
    status, lines = check(manifests.resource(args=["--readiness-policy=any"], **older))
    assert status == 1
    assert "--readiness-policy needs a server of version 0.2.0 or newer" in lines[0]
    status, lines = check(manifests.resource(serverVersion="0.1.0"))
    assert status == 1
    assert "a server of version 0.1.0 reads folders only" in lines[0]


def test_the_arguments_of_a_canary_and_of_a_profile_are_checked(check: RUN) -> None:
    service = manifests.resource()
    service["spec"]["gateway"] = {"parentRefs": [{"name": "a"}], "hostnames": ["a.example.com"]}
    service["spec"]["canary"] = {"weight": 1, "args": ["--magic"], "model": {"storageUri": "/a"}}
    profile = {
        "apiVersion": "serving.naiad.dev/v1alpha1",
        "kind": "NaiadProfile",
        "metadata": {"name": "platform"},
        "spec": {"args": ["--magic"]},
    }
    _, lines = check(service, profile)
    assert fields(lines) == ["spec.canary.args[0]", "spec.canary.model.storageUri", "spec.args[0]"]


@pytest.mark.parametrize(
    ("predictor", "line"),
    [
        ({"resources": {"requests": {"cpu": 2, "memory": "1Gi"}, "limits": {"cpu": "2000m", "memory": "2Gi"}}}, ""),
        ({"resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1500m"}}},
         "spec.predictor.resources.requests[cpu]: is 2, and limits[cpu] is 1500m: Kubernetes takes no request above its limit"),
        ({"resources": {"requests": {"amd.com/gpu": 1}}}, "spec.predictor.resources.requests[amd.com/gpu]: Kubernetes wants the limit"),
        ({"model": {"storageUri": "s3://a/b", "cache": {"size": "9Gi"}}, "resources": {"limits": {"ephemeral-storage": "8Gi"}}},
         "spec.predictor.model.cache.size: is 9Gi, which is also a request, and limits[ephemeral-storage] is 8Gi"),
        ({"resources": {"limits": {"memory": "1Gi"}}}, "warning: spec.predictor.resources.limits[memory]: is 1Gi, and /dev/shm"),
        ({"sharedMemory": "64Mi", "resources": {"limits": {"memory": "1Gi"}}}, ""),
    ],
)  # fmt: skip
def test_amounts(check: RUN, predictor: dict[str, typing.Any], line: str) -> None:
    status, lines = check(manifests.resource(**predictor))
    assert status == (1 if line and not line.startswith("warning") else 0)
    assert lines[0].startswith(line or "1 service")


def test_a_pod_template_that_requests_more_than_a_limit(check: RUN) -> None:
    """Also where one of the two is in resources, or the container is another one."""
    limits = {"limits": {"memory": "4Gi"}}
    server = {"name": "server", "resources": {"requests": {"memory": "8Gi"}}}
    agent = {"name": "agent", "image": "a", "resources": {**limits, "requests": {"memory": "5Gi"}}}
    template = {"spec": {"containers": [server, agent]}}
    status, lines = check(manifests.resource(resources=limits, podTemplate=template))
    assert status == 1
    assert lines[:2] == [
        f"spec.predictor.podTemplate: gives container {name} a request of {amount} memory and a limit of 4Gi: "
        "Kubernetes takes no request above its limit"
        for name, amount in (("server", "8Gi"), ("agent", "5Gi"))
    ]


@pytest.mark.parametrize(
    ("predictor", "line"),
    [
        ({"model": {"storageUri": "https://acme.blob.core.windows.net/models/a"}},
         "spec.predictor.model.storageUri: is https://acme.blob.core.windows.net/models/a: write as://acme/models/a"),
        ({"model": {"repositories": [{"storageUri": "s3://a/b"}, {"storageUri": "/models"}]}},
         "spec.predictor.model.repositories[1].storageUri: is /models, a folder"),
        ({"model": {"storageUri": "s3://http://a:9000/b", "storage": {"endpoint": "http://a:9000", "secretName": "a"}}},
         "spec.predictor.model.storageUri: names an endpoint, and storage.endpoint names one as well: write s3://b"),
        ({"model": {"storageUri": "s3://a/resnet/1"}}, "warning: spec.predictor.model.storageUri: ends with 1, which looks like"),
        ({"model": {"storageUri": "s3://a", "storage": {"endpoint": "http://a:9000"}}},
         "warning: spec.predictor.model.storageUri: requests will have no credentials"),
        ({"model": {"storageUri": "as://a/b"}}, "warning: spec.predictor.model.storageUri: requests will have no credentials"),
        ({"model": {"storageUri": "as://a/b"}, "serviceAccountName": "a"}, ""),
        ({"model": {"storageUri": "as://a/b"}, "env": [{"name": "AZURE_STORAGE_KEY", "value": "a"}]}, ""),
        ({"model": {"storageUri": "s3://a"}}, ""),
        ({"model": {"storageUri": "pvc://a"}}, ""),
    ],
)  # fmt: skip
def test_stores(check: RUN, predictor: dict[str, typing.Any], line: str) -> None:
    status, lines = check(manifests.resource(**predictor))
    assert status == (1 if line and not line.startswith("warning") else 0)
    assert lines[0].startswith(line or "1 service")
    assert len(lines) == (2 if line else 1), "said once"


@pytest.mark.parametrize(
    ("resources", "message"),
    [
        ({"limits": {"cpu": -1}}, "limits[cpu]: is -1: write 0 or more"),
        ({"limits": {"cpu": -1}, "requests": {"cpu": 1}}, "limits[cpu]: is -1: write 0 or more"),
        ({"limits": {"memory": "512m"}}, "limits[memory]: is 512m, 0.512 bytes, because m is a thousandth: write M or Mi, e.g. 512Mi"),
        ({"requests": {"memory": 4096}}, "warning: spec.predictor.resources.requests[memory]: is 4096, 4096 bytes: write a unit, e.g. 4096Mi"),
        ({"requests": {"gpu": 1}}, "requests[gpu]: there is no resource gpu: GPUs are requested in predictor.accelerator"),
        ({"requests": {"memry": "1Gi"}}, "requests[memry]: there is no resource memry: did you mean memory?"),
    ],
)  # fmt: skip
def test_amounts_that_are_hardly_meant(
    check: RUN, resources: dict[str, typing.Any], message: str
) -> None:
    status, lines = check(manifests.resource(resources=resources))
    assert status == (0 if message.startswith("warning") else 1)
    odd = [line for line in lines[:-1] if "/dev/shm" not in line]
    assert len(odd) == 1
    assert message in odd[0]


def test_a_variable_that_stands_twice(check: RUN) -> None:
    env = [{"name": "A", "value": "1"}, {"name": "B", "value": "1"}, {"name": "A", "value": "2"}]
    status, lines = check(manifests.resource(env=env))
    assert status == 0
    assert lines[0].startswith("warning: spec.predictor.env[2].name: A is already env[0]")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"containers": [{"name": "sever", "args": ["x"]}]}, "warning: spec.predictor.podTemplate.spec.containers[0].name: adds a container sever"),
        ({"container": [{"name": "server"}]}, "spec.predictor.podTemplate.spec.container: a pod has no such field: did you mean containers?"),
        ({"containers": [{"name": "server"}, {"name": "agent", "image": "a"}], "hostNetwork": True}, ""),
    ],
)  # fmt: skip
def test_what_is_misspelled_in_the_pod_template(
    check: RUN, spec: dict[str, typing.Any], message: str
) -> None:
    given = manifests.resource(podTemplate={"spec": spec})
    _, lines = check(given, options=["--pod-template=Allow"])
    assert lines[0].startswith(message or "1 service")


@pytest.mark.parametrize(
    ("options", "status", "field"),
    [
        ([], 0, "warning: spec.predictor.podTemplate.spec.hostPID"),
        (["--pod-template=Restricted"], 1, "spec.predictor.podTemplate.spec.hostPID"),
        (["--pod-template=Refuse"], 1, "spec.predictor.podTemplate"),
        (["--pod-template=Allow"], 0, "1 service, 2 objects"),
    ],
)
def test_what_a_platform_refuses_is_an_error_where_the_command_says_so_and_else_a_warning(
    check: RUN, options: list[str], status: int, field: str
) -> None:
    given = manifests.resource(podTemplate={"spec": {"hostPID": True}})
    found, lines = check(given, options=options)
    assert found == status
    assert lines[0].startswith(f"{field}: ")
    if "podTemplate" in field:
        assert "refused" in lines[0]


def test_an_address_that_ends_with_a_blank(check: RUN) -> None:
    status, lines = check(manifests.resource(model={"storageUri": "s3://acme/models "}))
    assert status == 0
    assert "model.storageUri: ends with a blank" in lines[0]


def test_a_key_of_a_label_that_kubernetes_refuses(check: RUN) -> None:
    wrong = manifests.resource(nodeSelector={"pool": "a", "-pool": "b"})
    wrong["spec"] |= {"labels": {"a b": "c", "example.com/team": "d"}, "annotations": {"/x": "z"}}
    wrong["spec"] |= {
        "service": {"annotations": {"a/b/c": "d"}},
        "monitoring": {"podMonitor": True, "labels": {"a,b": "c"}},
    }
    wrong["spec"] |= {
        "ingress": {
            "enabled": True,
            "host": "a.b",
            "annotations": {"a ": "b"},
            "grpcHost": "c.d",
            "grpcAnnotations": {"": "b"},
        }
    }
    status, lines = check(wrong)
    assert status == 1
    assert fields(lines) == [
        "spec.predictor.nodeSelector[-pool]",
        "spec.labels[a b]",
        "spec.annotations[/x]",
        "spec.service.annotations[a/b/c]",
        "spec.monitoring.labels[a,b]",
        "spec.ingress.annotations[a ]",
        "spec.ingress.grpcAnnotations[]",
    ]


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"namespace": "Team_A"}, "metadata.namespace: is 'Team_A': write the name of a namespace"),
        ({"labels": {"a b": "c"}}, "metadata.labels[a b]: the key has the form NAME"),
        ({"labels": {"a": "b c"}}, "metadata.labels[a]: is 'b c': write the value of a label"),
        ({"annotations": {"/a": "b c"}}, "metadata.annotations[/a]: the key has the form NAME"),
    ],
)
def test_metadata_that_kubernetes_refuses(
    check: RUN, metadata: dict[str, typing.Any], message: str
) -> None:
    wrong = manifests.resource()
    wrong["metadata"] |= metadata
    status, lines = check(wrong)
    assert status == 1
    assert lines[0].startswith(message)
    assert lines[-1] == "1 problem"


def test_an_older_server_of_a_canary_lacks_what_came_later(check: RUN) -> None:
    """As the operator would say it: a canary with an image of its own has a server's version of its own."""
    service = manifests.resource(model={"storageUri": "pvc://models"}, readiness={"policy": "any"})
    service["spec"]["gateway"] = {"parentRefs": [{"name": "a"}], "hostnames": ["a.example.com"]}
    service["spec"]["canary"] = {"weight": 1, "image": "example.com/naiad-server:0.1.0"}
    status, lines = check(service)
    assert status == 1
    assert "readiness: needs a server of version 0.2.0 or newer" in lines[0]


@pytest.mark.parametrize(
    ("predictor", "message"),
    [
        ({"model": {"storageUri": "pvc://a", "pythonRequirements": ["transformers=4.57"]}},
         "spec.predictor.model.pythonRequirements[0]: is 'transformers=4.57', which pip refuses: write transformers==4.57"),
        ({"model": {"storageUri": "pvc://a", "pythonRequirements": ["a[x]===1", "b>=1,<=2", "c", "d @ https://e/f?g=h", "i==1;python_version=='3.12'"]}}, ""),
        ({"model": {"storageUri": "pvc://a", "load": {"mode": "explicit", "models": ["a"]}}, "readiness": {"policy": "models", "models": ["a", "b"]}},
         "warning: spec.predictor.model.load.models: does not name model b, for which readiness.models waits"),
        ({"model": {"storageUri": "pvc://a", "load": {"mode": "explicit", "models": ["*"]}}, "readiness": {"policy": "models", "models": ["b"]}}, ""),
        ({"tolerations": [{"key": "a", "effect": "NoSchedule", "tolerationSeconds": 3}]},
         "spec.predictor.tolerations[0].tolerationSeconds: only a taint with the effect NoExecute"),
        ({"tolerations": [{"key": "a", "effect": "NoExecute", "tolerationSeconds": 3}]}, ""),
        ({"podTemplate": {"spec": {"containers": [{"name": "server", "$patch": "delete"}]}}},
         "spec.predictor.podTemplate: takes the container server away"),
        ({"podTemplate": {"spec": None}}, "spec.predictor.podTemplate: takes the container server away"),
    ],
)  # fmt: skip
def test_pods_that_would_not_be_ready_or_not_be_accepted(
    check: RUN, predictor: dict[str, typing.Any], message: str
) -> None:
    status, lines = check(manifests.resource(**predictor))
    assert status == (1 if message and not message.startswith("warning") else 0)
    assert lines[0].startswith(message or "1 service")


@pytest.mark.parametrize(
    ("component", "line"),
    [
        ({"modelName": "bret"}, "warning: spec.transformer.modelName: is bret, which the servers do not load: write one of spec.predictor.model.load.models (bert, tokens)"),
        ({}, "warning: spec.transformer.modelName: is not set, so that the program gets the name of the service as --model_name, and the servers load bert, tokens"),
        ({"modelName": "bert"}, "1 service"),
        ({"args": ["--model-name=bret"]}, "1 service"),
    ],
)  # fmt: skip
def test_a_model_that_a_transformer_asks_for_and_no_server_loads_is_a_warning(
    check: RUN, component: dict[str, typing.Any], line: str
) -> None:
    load = {"mode": "explicit", "models": ["bert", "tokens"]}
    service = manifests.resource(model={"storageUri": "pvc://a", "load": load})
    service["spec"]["transformer"] = {"image": "registry.example.com/qa:1", **component}
    status, lines = check(service)
    assert status == 0
    assert lines[0].startswith(line)
    service["spec"]["predictor"]["model"]["load"] = {"mode": "all"}
    assert check(service)[1][0].startswith("1 service")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"service": {"type": "LoadBalancer", "loadBalancerSourceRanges": ["10.0.0.0/8", "10.0.0.0/33"]}},
         "spec.service.loadBalancerSourceRanges[1]: is '10.0.0.0/33', which is not a range of addresses"),
        ({"service": {"type": "LoadBalancer", "loadBalancerSourceRanges": ["2001:db8::/32"]}}, ""),
        ({"ingress": {"enabled": True, "host": "a..example.com"}}, "spec.ingress.host: is 'a..example.com': the parts"),
        ({"ingress": {"enabled": True, "host": "*.example.com"}}, ""),
        ({"gateway": {"parentRefs": [{"name": "a"}], "hostnames": ["a.example.com", f"{'b' * 64}.example.com"]}}, "spec.gateway.hostnames[1]: is 'bbb"),
        ({"gateway": {"parentRefs": [{"name": "a"}], "grpcHostnames": ["a-.example.com"]}}, "spec.gateway.grpcHostnames[0]: is 'a-.example.com'"),
    ],
)  # fmt: skip
def test_entries_that_the_api_server_would_refuse(
    check: RUN, spec: dict[str, typing.Any], message: str
) -> None:
    service = manifests.resource()
    service["spec"] |= spec
    status, lines = check(service)
    assert status == (1 if message else 0)
    assert lines[0].startswith(message or "1 service")


@pytest.mark.parametrize(
    ("ingress", "message"),
    [
        ({"className": "traefik", "sessionAffinity": {"type": "Header"}}, "warning: spec.ingress.sessionAffinity: ingress.sessionAffinity of type Header cannot be set"),
        ({"className": "traefik", "sessionAffinity": {"type": "Cookie"}}, ""),
        ({"className": "traefik", "maxBodySize": "1Gi"}, "warning: spec.ingress: ingress.maxBodySize cannot be set"),
        ({"enabled": False, "className": "traefik", "maxBodySize": "1Gi"}, ""),
    ],
)  # fmt: skip
def test_what_the_class_of_an_ingress_does_not_take_is_a_warning(
    check: RUN, ingress: dict[str, typing.Any], message: str
) -> None:
    service = manifests.resource()
    service["spec"]["ingress"] = {"enabled": True, "host": "a.example.com", **ingress}
    status, lines = check(service)
    assert status == 0
    assert lines[0].startswith(message or "1 service")


def test_of_very_many_findings_the_problems_come_first_and_the_rest_is_counted(check: RUN) -> None:
    env = [{"name": "A", "value": "1"} for _ in range(60)]
    selector = {f"a b{index}": "c" for index in range(80)}
    status, lines = check(manifests.resource(env=env, nodeSelector=selector))
    assert status == 1
    assert lines[-1] == "81 problems, 59 warnings"
    assert lines[-2].endswith("and 40 more")
    assert len(lines) == 102
    assert sum(line.startswith("warning") for line in lines) == 19


def test_an_annotation_of_upgrades_that_the_operator_does_not_know_is_an_error(check: RUN) -> None:
    service = manifests.resource()
    names = {"serving.naiad.dev/upgrades": "skip", "serving.naiad.dev/upgrade-order": "first"}
    service["metadata"]["annotations"] = names
    status, lines = check(service)
    assert status == 1
    text = "\n".join(lines)
    assert (
        "metadata.annotations[serving.naiad.dev/upgrades]: is 'skip': write Pause or Skip" in text
    )
    assert "upgrade-order]: is 'first': write an integer" in text


@pytest.mark.parametrize("enabled", [None, False, True])
@pytest.mark.parametrize(
    ("field", "given"),
    [("ingress", {"host": "demo.example.com"}), ("networkPolicy", {"allowExternal": True})],
)
def test_a_part_that_nothing_switches_on_is_a_warning(
    check: RUN, field: str, given: dict[str, typing.Any], *, enabled: bool | None
) -> None:
    service = manifests.resource()
    service["spec"][field] = given | ({} if enabled is None else {"enabled": enabled})
    _, lines = check(service)
    said = [one for one in lines if f"spec.{field}: " in one and "has no effect" in one]
    assert bool(said) == (enabled is None), lines
    assert not said or "write enabled: true" in said[0]
