"""The manifests of the add-ons."""

import yaml

from e2e.addons import install
from e2e.cluster.layout import NODES


def test_what_stands_alone_prefers_the_node_that_no_story_ends() -> None:
    found = {}
    for path in install.MANIFESTS.glob("*.yaml"):
        for one in filter(None, yaml.safe_load_all(path.read_text())):
            if one["kind"] == "Deployment" and one["metadata"]["namespace"] in {"ingress", "store"}:
                affinity = one["spec"]["template"]["spec"].get("affinity", {})
                found[one["metadata"]["name"]] = NODES[0].name in str(affinity.get("nodeAffinity"))
    assert found == {"gcs": True, "registry": True, "s3": True, "traefik": True}
