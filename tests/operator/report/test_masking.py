"""Credentials in manifests: wherever a person can put one, it is masked there and in everything that repeats it."""

import base64
import json
import typing

import pytest

from naiad_operator.api.schema import crd, resources
from naiad_operator.report.masking import Masker

S = "pl4nted-Value/"


def masked(manifest: dict[str, typing.Any]) -> dict[str, typing.Any]:
    return Masker().manifest(manifest)


def planted() -> tuple[dict[str, typing.Any], int]:
    """A Deployment with a different credential in every place that was thought of, and how many they are."""
    count = 0

    def secret() -> str:
        nonlocal count
        count += 1
        return f"{S}{count:03}"

    def variable(name: str, value: str) -> dict[str, str]:
        return {"name": name, "value": value}

    containers = [
        {
            "name": "server",
            "env": [
                variable("DB_PASSWORD", secret()),
                variable("STRIPE_KEY", secret()),
                variable("DATABASE_URL", f"postgres://user:{secret()}@db/x"),
                variable("CREDENTIALS", json.dumps({"user": "x", "value": secret()})),
                variable("SETTINGS", json.dumps({"client_secret": secret(), "deep": [{"password": secret()}]})),
                variable("HEADERS", f"Authorization=Bearer {secret()}"),
                variable("REGISTRIES", json.dumps({"auths": {"r": {"auth": secret()}}})),
                variable("LIST", json.dumps({"headers": [["x-api-key", secret()]]})),
                variable("BLOCK", f"password: |\n  {secret()}"),
            ],
            "command": ["sh", "-c", f"curl -u admin:{secret()} http://x && serve --token {secret()}"],
            "args": [
                f"--api-key={secret()}", "--password", secret(), "--user", f"admin:{secret()}",
                f"--http-restricted-api=metadata:admin={secret()}", "--grpc-restricted-protocol", f"metadata:admin={secret()}",
                f"--model-repository=https://u:{secret()}@host/x?X-Amz-Signature={secret()}",
            ],
            "readinessProbe": {"httpGet": {"path": "/", "httpHeaders": [variable("Authorization", f"Basic {secret()}"), variable("X-Api-Key", secret())]}},
            "lifecycle": {"postStart": {"exec": {"command": ["register", "--secret", secret()]}}},
        },
    ]  # fmt: skip
    applied = {"kind": "Deployment", "spec": {"env": [variable("A", secret())]}}
    manifest = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": "demo",
            "labels": {"api-token": secret()},
            "annotations": {
                "kubectl.kubernetes.io/last-applied-configuration": json.dumps(applied),
                "serving.naiad.dev/template": base64.b64encode(secret().encode()).decode(),
                "objectset.rio.cattle.io/applied": base64.b64encode(secret().encode()).decode(),
                "example.com/webhook-secret": secret(),
                "example.com/url": f"https://hooks.example.com/?token={secret()}",
                "nginx.ingress.kubernetes.io/configuration-snippet": f'proxy_set_header Authorization "Bearer {secret()}";',
                "example.com/json": json.dumps({"env": [variable("API_TOKEN", secret())]}),
            },
            "managedFields": [{"manager": "kubectl", "fieldsV1": {"f:data": secret()}}],
        },
        "spec": {
            "template": {"spec": {"containers": containers, "initContainers": [{"name": "i", "env": [variable("TOKEN", secret())]}]}},
            "parameters": {"auth_token": {"string_value": secret()}, "openai_key": {"stringValue": secret()}, "list": [{"key": "api_key", "value": {"string_value": secret()}}]},
            "triggers": [{"metadata": {"serverAddress": f"http://u:{secret()}@prometheus", "bearerToken": secret(), "customHeaders": f"X-Auth-Token={secret()}"}}],
            "tokens": [secret(), secret()],
            "items": [{"kind": "Secret", "data": {"a": secret()}, "stringData": {"b": secret()}}, {"kind": "ConfigMap", "data": {"c": secret()}}],
        },
        "status": {"containerStatuses": [{"state": {"terminated": {"message": f"error: login with password={secret()} failed"}}}]},
    }  # fmt: skip
    return manifest, count


def test_nothing_of_what_was_planted_is_left() -> None:
    manifest, count = planted()
    text = json.dumps(masked(manifest))
    assert count > 35
    left = [number for number in range(1, count + 1) if f"{S}{number:03}" in text]
    assert left == []
    assert base64.b64encode(S.encode()).decode()[:12] not in text


def test_what_is_around_it_stays() -> None:
    manifest, _ = planted()
    container = masked(manifest)["spec"]["template"]["spec"]["containers"][0]
    assert container["env"][0] == {"name": "DB_PASSWORD", "value": "***"}
    assert container["env"][2]["value"] == "postgres://***@db/x"
    assert container["args"][:3] == ["--api-key=***", "--password", "***"]
    assert container["args"][-1] == "--model-repository=https://***@host/x?X-Amz-Signature=***"


def test_what_is_harmless_in_spite_of_its_name_stays() -> None:
    parameters = {"max_tokens": 512, "pad_token": "<pad>", "api_token": None, "password": "none"}
    assert masked({"kind": "Pod", "spec": parameters})["spec"] == parameters


def test_references_stay() -> None:
    spec = {
        "env": [
            {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "models", "key": "AWS_SECRET"}}},
            {"name": "AWS_WEB_IDENTITY_TOKEN_FILE", "value": "/var/run/token"},
            {"name": "GOOGLE_APPLICATION_CREDENTIALS", "value": "/etc/naiad/key.json"},
        ],
        "args": ["--auth-token-file=/etc/naiad/tokens", "--tls-key", "/etc/tls/tls.key", "--http-restricted-api", "metadata:key=$(KEY)"],
        "volumes": [{"secret": {"secretName": "models", "items": [{"key": "key.json"}]}}],
        "imagePullSecrets": [{"name": "registry"}],
        "automountServiceAccountToken": False,
        "serviceAccountToken": {"expirationSeconds": 3600, "path": "token"},
        "affinity": {"topologyKey": "kubernetes.io/hostname", "matchLabelKeys": ["pod-hash"]},
        "tolerations": [{"key": "auth", "operator": "Equal", "value": "yes", "effect": "NoSchedule"}],
    }  # fmt: skip
    assert masked({"kind": "Pod", "spec": spec})["spec"] == spec


def test_a_masked_value_is_masked_in_logs_and_in_other_manifests() -> None:
    masker = Masker()
    masker.manifest({"spec": {"env": [{"name": "API_TOKEN", "value": "zQ8-unknown-form"}]}})
    assert masker.text("started with zQ8-unknown-form") == "started with ***"
    assert masker.text(base64.b64encode(b"zQ8-unknown-form").decode()) == "***"
    for user in ("u", "user", "users"):
        pair = base64.b64encode(f"{user}:zQ8-unknown-form".encode()).decode()
        assert "***" in masker.text(f"sent {pair} to"), "also within a longer text in base64"
    assert masker.again({"a": [{"b": "uses zQ8-unknown-form"}], "n": 1}) == {"a": [{"b": "uses ***"}], "n": 1}  # fmt: skip


def test_ordinary_words_and_numbers_are_not_masked_everywhere() -> None:
    masker = Masker()
    for value in ("default", "production-models", "100000", "/models/production"):
        masker.manifest({"env": [{"name": "SOME_KEY", "value": value}]})
    assert masker.text("default production-models 100000 /models/production") == "default production-models 100000 /models/production"  # fmt: skip


def test_lines_of_json_are_masked_by_their_structure_and_others_stay_as_they_are() -> None:
    masker = Masker()
    line = '2026-11-23T15:00:00Z {"message": "x",  "n": 1}'
    assert masker.text(line) == line, "also its spaces"
    secret = '2026-11-23T15:00:00Z {"message": "login", "auth": {"password": "a b", "headers": [{"name": "X-Token", "value": "b"}]}}'
    assert masker.text(secret) == (
        '2026-11-23T15:00:00Z {"message": "login", "auth": {"password": "***", "headers": [{"name": "X-Token", "value": "***"}]}}'
    )


def test_a_private_key_over_many_lines_of_a_log() -> None:
    lines = [f"2026-11-23T15:00:0{n}Z {text}" for n, text in enumerate(["a", "-----BEGIN PRIVATE KEY-----", "MIIEv", "x9Zz", "-----END PRIVATE KEY-----", "b"])]  # fmt: skip
    text = Masker().text("\n".join(lines))
    assert "MIIEv" not in text
    assert "x9Zz" not in text
    assert text.startswith("2026-11-23T15:00:00Z a")
    assert text.endswith("2026-11-23T15:00:05Z b")


def test_colors_of_a_log_hide_no_credential() -> None:
    line = "\x1b[36mpassword\x1b[0m=\x1b[35mzQ8-unknown-form\x1b[0m ok"
    assert Masker().text(line) == "password=*** ok"


def fields_and_texts(schema: dict[str, typing.Any]) -> tuple[set[str], set[str]]:
    """The names of the fields of a schema that are texts, and what its rules say."""
    properties = schema.get("properties", {})
    fields = {name for name, field in properties.items() if field.get("type") == "string"}
    texts = {rule["message"] for rule in schema.get("x-kubernetes-validations", ())}
    for inner in (*properties.values(), schema.get("items"), schema.get("additionalProperties")):  # fmt: skip
        if isinstance(inner, dict):
            more = fields_and_texts(inner)
            fields, texts = fields | more[0], texts | more[1]
    return fields, texts


@pytest.mark.parametrize("resource", [resources.SERVICE, resources.PROFILE], ids=lambda one: one.kind)  # fmt: skip
def test_fields_and_messages_of_the_operators_own_resources_stay(
    resource: resources.CustomResource,
) -> None:
    """They refer to Secrets only, and are what a report is read for."""
    schema = crd.definition(resource)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    fields, texts = fields_and_texts(schema)
    spec = dict.fromkeys(sorted(fields), "some-2")
    assert texts
    assert masked({"spec": spec}) == {"spec": spec}
    assert [text for text in texts if Masker().text(text) != text] == []
