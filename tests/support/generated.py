"""Every file that is made from the operator's typed model, and what it should say."""

import pathlib

from naiad_operator.api import crd, reference, yaml_text
from tests.support import manifests

ROOT = pathlib.Path(__file__).parent.parent.parent
CRD_FILE = "inferenceservices.serving.naiad.dev.yaml"


def files() -> dict[pathlib.Path, str]:
    """The text of every generated file."""
    definition = yaml_text.write([crd.definition()])
    found = {
        ROOT / "crds" / CRD_FILE: definition,
        ROOT / "docs" / "inferenceservice.md": reference.page(),
    }
    for path in manifests.INPUTS:
        text = yaml_text.write(manifests.built(path))
        found[manifests.expected(path)] = f"{manifests.reason(path)}\n{text}"
    return found
