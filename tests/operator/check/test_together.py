"""Services of one file beside each other, and objects that are not checked."""

import pathlib
import typing

import pytest

from naiad_operator import cli
from tests.operator.check.lines import RUN
from tests.support import manifests

Object = dict[str, typing.Any]
WORDS = "is claimed by the service"


def service(name: str, namespace: str = "models", **spec: typing.Any) -> Object:
    made = manifests.resource()
    made["metadata"] |= {"name": name, "namespace": namespace}
    made["spec"] |= spec
    return made


def ingress(**fields: typing.Any) -> Object:
    return {"ingress": {"enabled": True, "className": "nginx", "host": "a.example.com", **fields}}


def gateway(*hosts: str, **spec: typing.Any) -> Object:
    parents = [{"name": "public", "namespace": "gateways"}]
    return {"gateway": {"parentRefs": parents, "hostnames": list(hosts)}, **spec}


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        (ingress(), ingress(), "a.example.com/ is claimed by the service one as well"),
        (ingress(), ingress(host="b.example.com"), ""),
        (ingress(), ingress(path="/two"), ""),
        (ingress(), ingress(className="internal"), ""),
        (ingress(), ingress(host="b.example.com", grpcHost="a.example.com"), "a.example.com/ is claimed"),
        (gateway("a.example.com"), gateway("b.example.com", "a.example.com"), "a.example.com/ is claimed by"),
        (gateway("a.example.com"), gateway("a.example.com", pathPrefix="/two"), ""),
        (gateway("a.example.com"), ingress(), ""),
    ],
)  # fmt: skip
def test_a_host_that_two_services_claim_is_a_warning_on_the_second(
    check: RUN, first: Object, second: Object, said: str
) -> None:
    status, lines = check(service("one", **first), service("two", **second))
    assert status == 0
    found = [line for line in lines if WORDS in line]
    assert len(found) == (1 if said else 0), lines
    assert not said or said in found[0]


def test_a_service_of_another_namespace_is_named_with_it(check: RUN) -> None:
    _, lines = check(service("one", "a", **ingress()), service("two", "b", **ingress()))
    assert any("the service a/one as well" in line for line in lines)


def test_a_service_named_like_a_child_of_another_is_a_warning(check: RUN) -> None:
    head: Object = {"service": {"headless": True}}
    _, alone = check(service("demo", **head), service("other"))
    assert not any("only one of them" in line for line in alone)
    status, lines = check(service("demo", **head), service("demo-headless"))
    assert status == 0
    [line] = [line for line in lines if "only one of them" in line]
    assert line.startswith(
        "warning: metadata.name: its Service demo-headless is one of the service demo"
    )
    _, apart = check(service("demo", **head), service("demo-headless", "elsewhere"))
    assert not any("only one of them" in line for line in apart)


def test_a_mirror_that_has_no_transformer_for_what_it_gets_is_a_warning(check: RUN) -> None:
    transformer: Object = {"transformer": {"image": "registry.example.com/qa:1"}}
    mirrored = service("qa", **transformer, **gateway("a.example.com"), mirror={"service": "next"})
    words = "spec.mirror.service: is next, which has no transformer"
    for others in ([mirrored, service("next")], [service("next"), mirrored]):
        status, lines = check(*others)
        assert status == 0
        assert any(line.startswith(f"warning: {words}") for line in lines), lines
    for other in (service("next", **transformer), service("next", "elsewhere"), service("other")):
        assert not any(words in line for line in check(mirrored, other)[1])
    plain = service("qa", **gateway("a.example.com"), mirror={"service": "next"})
    assert not any(words in line for line in check(plain, service("next"))[1])


def test_objects_of_other_kinds_are_named(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "all.yaml"
    objects = [f"{{apiVersion: v1, kind: ConfigMap, metadata: {{name: c{n}}}}}" for n in range(12)]
    text = pathlib.Path("examples/inferenceservice.yaml").read_text()
    file.write_text("\n---\n".join([*objects, "{apiVersion: v1}", text]))
    assert cli.main(["check", "-f", str(file)]) == 0
    said = capsys.readouterr().err
    assert "not checked, being neither InferenceService nor NaiadProfile: ConfigMap c0, " in said
    assert "ConfigMap c9 and 3 more" in said
    assert cli.main(["check", "-q", "-f", str(file)]) == 0
    assert "not checked" not in capsys.readouterr().err
