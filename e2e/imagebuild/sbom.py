"""The list of what an image holds (SBOM), in the CycloneDX format: the Python packages of its environment and the Debian packages of its base."""

import email.parser
import importlib.metadata
import pathlib
from collections.abc import Iterable, Iterator

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.license import License
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

_DEBIAN = ("var/lib/dpkg/status", "var/lib/dpkg/status.d/*")
"""Where images list their Debian packages; the second without a package manager."""


def write(root: pathlib.Path, name: str, version: str, file: pathlib.Path) -> int:
    """Writes the list of an image; the number of Python packages.

    Args:
        root: the root file system, with the environment in `/opt/naiad`.
        name: of the image.
        version: of the image.
        file: the JSON file.
    """
    bom = Bom()
    image = Component(name=name, version=version, type=ComponentType.CONTAINER)
    bom.metadata.component = image
    packages = list(_python(root / "opt" / "naiad"))
    bom.components.update([*packages, *_debian(root)])
    bom.register_dependency(image, bom.components)
    file.write_text(JsonV1Dot6(bom).output_as_string(indent=1))
    return len(packages)


def _python(environment: pathlib.Path) -> Iterator[Component]:
    folders = [str(folder) for folder in environment.glob("lib/python*/site-packages")]
    for package in importlib.metadata.distributions(path=folders):
        title = str(package.metadata["Name"])
        address = PackageURL("pypi", name=title.lower().replace("_", "-"), version=package.version)
        licence = _licence(package.metadata)
        yield _library(title, package.version, address, [LicenseFactory().make_from_string(licence)] if licence else [])  # fmt: skip


def _licence(metadata: importlib.metadata.PackageMetadata) -> str:
    """The licence of a Python package: its SPDX expression or its name; "" if the package does not say it."""
    given = (metadata.get_all("License-Expression") or metadata.get_all("License") or [""])[0]
    if given and "\n" not in given:
        return str(given)
    classifiers = metadata.get_all("Classifier") or []
    # Some packages have the whole text where the name should be.
    names = [one.rpartition(" :: ")[2] for one in classifiers if one.startswith("License :: ")]
    return str(names[0] if names else given.partition("\n")[0])


def _debian(root: pathlib.Path) -> Iterator[Component]:
    """The Debian packages, without licences: Debian has these as texts only."""
    release = root / "etc" / "os-release"
    lines = release.read_text().splitlines() if release.exists() else []
    system = dict(line.replace('"', "").split("=", 1) for line in lines if "=" in line)
    distribution = system.get("ID", "debian")
    for file in (file for pattern in _DEBIAN for file in sorted(root.glob(pattern))):
        for paragraph in file.read_text().split("\n\n"):
            fields = email.parser.HeaderParser().parsestr(paragraph.lstrip())
            name, version = fields["Package"], fields["Version"]
            if name and version and fields.get("Status", "installed").endswith("installed"):
                qualifiers = {"arch": fields["Architecture"], "distro": f"{distribution}-{system.get('VERSION_ID', '')}"}  # fmt: skip
                address = PackageURL("deb", distribution, name, version, qualifiers)
                yield _library(name, version, address)


def _library(
    name: str, version: str, address: PackageURL, licences: Iterable[License] = ()
) -> Component:
    return Component(
        type=ComponentType.LIBRARY,
        bom_ref=address.to_string(),
        name=name,
        version=version,
        purl=address,
        licenses=licences,
    )
