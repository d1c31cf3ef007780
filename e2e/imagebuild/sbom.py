"""The list of what an image holds (SBOM), in the CycloneDX format: every Python package of its environment with version and licence."""

import importlib.metadata
import pathlib

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL


def write(environment: pathlib.Path, name: str, version: str, file: pathlib.Path) -> int:
    """Writes the list of an environment; the number of packages.

    Args:
        environment: with `lib/pythonX.Y/site-packages`.
        name: of the image.
        version: of the image.
        file: the JSON file.
    """
    bom = Bom()
    image = Component(name=name, version=version, type=ComponentType.CONTAINER)
    bom.metadata.component = image
    components: list[Component] = []
    folders = [str(folder) for folder in environment.glob("lib/python*/site-packages")]
    for package in importlib.metadata.distributions(path=folders):
        fields = package.metadata.json
        title = str(fields["name"])
        licence = str(fields.get("license_expression") or fields.get("license") or "")
        address = PackageURL("pypi", name=title.lower().replace("_", "-"), version=package.version)
        licences = [LicenseFactory().make_from_string(licence.splitlines()[0])] if licence else []
        components.append(
            Component(
                type=ComponentType.LIBRARY,
                name=title,
                version=package.version,
                purl=address,
                licenses=licences,
            )
        )
    bom.components.update(components)
    bom.register_dependency(image, components)
    file.write_text(JsonV1Dot6(bom).output_as_string(indent=1))
    return len(bom.components)
