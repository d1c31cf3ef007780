"""Arguments of Triton: which become fields, and which are listed."""

import pytest

from tests.operator.convert.triton import RUN, Object, deployment, listed


@pytest.mark.parametrize(
    ("args", "fields"),
    [
        (["--model-store=gs://acme/models"], {"model": {"storageUri": "gs://acme/models"}}),
        (["--model-repository=as://acme/c/models"], {"model": {"storageUri": "as://acme/c/models"}}),
        (["--model-repository=s3://minio:9000/b/m"], {"model": {"storageUri": "s3://b/m", "storage": {"endpoint": "http://minio:9000"}}}),
        (["--model-repository=s3://a", "--model-repository", "gs://b"], {"model": {"repositories": [{"storageUri": "s3://a"}, {"storageUri": "gs://b"}]}}),
        (["--model-repo=s3://a"], {"model": {"storageUri": "s3://a"}}),
        (["--model-repository=s3://a", "--model-control-mode=poll", "--repository-poll-secs=9"],
         {"model": {"load": {"mode": "poll", "pollSeconds": 9}, "storageUri": "s3://a"}}),
        (["--model-repository=s3://a", "--model-control-mode=explicit", "--load-model=x"],
         {"model": {"load": {"mode": "explicit", "models": ["x"]}, "storageUri": "s3://a"}}),
        (["--model-repository=s3://a", "--model-control-mode=explicit"], {"model": {"storageUri": "s3://a"}, "args": ["--model-control-mode=explicit"]}),
        (["--model-repository=s3://a", "--model-control-mode=POLL", "--rate-limit=OFF"], {"model": {"load": {"mode": "poll"}, "storageUri": "s3://a"}}),
        (["--model-repository=s3://a", "--model-control-mode=none"], {"model": {"storageUri": "s3://a"}}),
        (["--model-repository=s3://a", "--http-port=9000", "--grpc-port", "8001"], {"model": {"storageUri": "s3://a"}, "ports": {"http": 9000}}),
        (["--model-repository=s3://a", "--exit-timeout-secs=120"], {"model": {"storageUri": "s3://a"}, "terminationGracePeriodSeconds": 135}),
        (["--model-repository=s3://a", "--log-verbose", "1", "--allow-http", "--http-address=0.0.0.0", "--exit-on-error=false", "--rate-limit=off"],
         {"model": {"storageUri": "s3://a"}, "args": ["--log-verbose=1"]}),
    ],
)  # fmt: skip
def test_arguments_become_fields(convert: RUN, args: list[str], fields: Object) -> None:
    converted = convert(deployment({"args": ["tritonserver", *args]}))
    assert converted.status == 0
    assert converted.predictor == {**fields, "accelerator": {"type": "none"}}
    assert not listed(converted, "args")


@pytest.mark.parametrize(
    ("arg", "words"),
    [
        ("--allow-sagemaker=true", "args[2]: left out: --allow-sagemaker=true: the server does not support the SageMaker front end"),
        ("--trace-magic=1", "args[2]: left out: the server has no option --trace-magic: did you mean"),
        ("--log-format=xml", "left out: --log-format=xml: expected one of"),
        ("--buffer-manager-thread-count=2", "left out: --buffer-manager-thread-count has no effect here: a batch"),
        ("--http-port=80", "left out: --http-port=80: a pod's user may open ports from 1024"),
        ("--allow-http=false", "left out: --allow-http=false: the kubelet's probes use HTTP"),
        ("--http-address=127.0.0.1", "left out: --http-address=127.0.0.1: probes and clients"),
        ("--exit-on-error=true", "left out: --exit-on-error=true: the operator writes false"),
        ("--auth-token-file=/a", "left out: --auth-token-file is what the operator writes: set spec.auth"),
        ("--log-file=/var/log/a", "left out: --log-file=/var/log/a: the root of the pods is read-only"),
        ("--load-model=x", "left out: model.load.models needs --model-control-mode=explicit"),
    ],
)  # fmt: skip
def test_arguments_that_do_not_fit_are_listed(convert: RUN, arg: str, words: str) -> None:
    converted = convert(
        deployment({"args": ["tritonserver", "--model-repository=s3://acme/models", arg]})
    )
    assert converted.status == 0
    assert "args" not in converted.predictor
    assert converted.predictor["model"] == {"storageUri": "s3://acme/models"}
    assert listed(converted, words), converted.lines


def test_a_port_in_a_variable(convert: RUN) -> None:
    args = ["tritonserver", "--model-repository=s3://acme/models", "--http-port=$(PORT)"]
    converted = convert(deployment({"args": args, "env": [{"name": "PORT", "value": "9000"}]}))
    assert converted.predictor["ports"] == {"http": 9000}
    converted = convert(deployment({"args": args}))
    assert listed(converted, "left out: --http-port=$(PORT): the variable is not set here")
