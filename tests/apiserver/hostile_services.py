"""Services that a tenant may write, each in its own way too much for the operator to read, and a client that writes them as text."""

import json
import ssl

import httpx

from tests.apiserver.control_plane import ADMIN_TOKEN, ControlPlane

PATH = "/apis/serving.naiad.dev/v1alpha1/namespaces/{}/inferenceservices"


class Raw:
    """Writes objects as text: the JSON encoder of Python recurses, too."""

    def __init__(self, plane: ControlPlane) -> None:
        context = ssl.create_default_context(cafile=str(plane.certificates.ca))
        headers = {"Authorization": f"Bearer {ADMIN_TOKEN}", "Content-Type": "application/json"}
        self.http = httpx.Client(
            base_url=plane.server, verify=context, headers=headers, timeout=60, trust_env=False
        )

    def create(self, name: str, namespace: str, predictor: str, annotations: str = "{}") -> bool:
        """Whether the API server takes a service with these fields."""
        metadata = f'{{"name":"{name}","namespace":"{namespace}","annotations":{annotations}}}'
        rest = '"model":{"storageUri":"s3://models/production"},"accelerator":{"type":"none"}'
        spec = f'{{"predictor":{{{rest},{predictor.removeprefix("{")}}}'
        text = f'{{"apiVersion":"serving.naiad.dev/v1alpha1","kind":"InferenceService","metadata":{metadata},"spec":{spec}}}'
        return self.http.post(PATH.format(namespace), content=text.encode()).status_code == 201

    def affinity(self, name: str, namespace: str) -> str:
        """The beginning of the service's text."""
        return self.http.get(f"{PATH.format(namespace)}/{name}").text

    def has_condition(self, name: str, namespace: str) -> bool:
        """Whether the operator has said something about the service."""
        return '"type":"Ready"' in self.affinity(name, namespace)

    def delete(self, name: str, namespace: str) -> None:
        """Removes it, if it is there."""
        self.http.delete(f"{PATH.format(namespace)}/{name}")


def nested(levels: int) -> str:
    """An affinity of so many levels; `json.dumps` could not write it."""
    return '{"nodeAffinity":' + '{"x":' * levels + "{}" + "}" * levels + "}"


HOSTILE = {
    "deep": f'{{"affinity":{nested(5_000)}}}',
    "bottom": f'{{"affinity":{{"a":[{"1," * 400_000}1],"b":{nested(2_000)}}}}}',
    "wide": f'{{"affinity":{{"nodeAffinity":[{"{}," * 24_000}{{}}]}}}}',
    "many": f'{{"affinity":{{"nodeAffinity":[{"{}," * 100_000}{{}}]}}}}',
    "text": json.dumps({"affinity": {"nodeAffinity": {"x": "x" * 1_000_000}}}),
    "digits": f'{{"affinity":{{"nodeAffinity":[{"1e308," * 190_000}1]}}}}',
    "number": '{"affinity":{"nodeAffinity":1e308}}',
    "half": '{"podTemplate":{"spec":{"nodeName":"\\ud800"}}}',
    "types": '{"podTemplate":{"spec":{"containers":[{"name":"server","resources":7}]}}}',
    "refused": '{"podTemplate":{"spec":{"containers":[{"name":"a b"}]}}}',
}
"""What a tenant may write, each in its own way too much."""
