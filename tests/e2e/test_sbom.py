"""The list of what an image holds: valid, complete, with licences that are names and not texts."""

import json
import pathlib
import typing

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from e2e.imagebuild import sbom

PACKAGES = {
    "spdx": "License-Expression: MIT AND Apache-2.0\nLicense: both",
    "named": "License: Apache 2.0",
    "classified": "Classifier: License :: OSI Approved :: MIT License",
    "whole.text": "License: Copyright (c) 2021, The Authors\n        All rights reserved.\nClassifier: License :: OSI Approved :: BSD License",
    "Nothing_said": "Summary: a package",
}
STATUS = """\
Package: libc6
Status: install ok installed
Architecture: amd64
Version: 2.36-9+deb12u10
Description: GNU C Library
 shared libraries

Package: removed
Status: deinstall ok config-files
Architecture: all
Version: 1.0
"""


@pytest.fixture
def bom(tmp_path: pathlib.Path) -> dict[str, typing.Any]:
    site = tmp_path / "opt" / "naiad" / "lib" / "python3.11" / "site-packages"
    for name, fields in PACKAGES.items():
        folder = site / f"{name}-1.0.dist-info"
        folder.mkdir(parents=True)
        (folder / "METADATA").write_text(f"Metadata-Version: 2.4\nName: {name}\nVersion: 1.0\n{fields}\n")  # fmt: skip
    for place, text in (
        ("var/lib/dpkg/status", STATUS),
        ("etc/os-release", 'ID=debian\nVERSION_ID="12"\n'),
    ):
        file = tmp_path / place
        file.parent.mkdir(parents=True)
        file.write_text(text)
    written = tmp_path / "bom.json"
    assert sbom.write(tmp_path, "naiad-server", "1.2.3", written) == len(PACKAGES)
    content = written.read_text()
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(content) is None
    read: dict[str, typing.Any] = json.loads(content)
    return read


def test_packages_of_python_and_of_the_base_are_listed(bom: dict[str, typing.Any]) -> None:
    addresses = {one["purl"] for one in bom["components"]}
    assert addresses == {
        "pkg:deb/debian/libc6@2.36-9%2Bdeb12u10?arch=amd64&distro=debian-12",
        "pkg:pypi/spdx@1.0",
        "pkg:pypi/named@1.0",
        "pkg:pypi/classified@1.0",
        "pkg:pypi/whole.text@1.0",
        "pkg:pypi/nothing-said@1.0",
    }
    image = bom["metadata"]["component"]
    (depends,) = [one["dependsOn"] for one in bom["dependencies"] if one["ref"] == image["bom-ref"]]
    assert set(depends) == addresses


def test_licences_are_expressions_or_names(bom: dict[str, typing.Any]) -> None:
    assert {one["name"]: one["licenses"][0] for one in bom["components"] if "licenses" in one} == {
        "spdx": {"expression": "MIT AND Apache-2.0"},
        "named": {"license": {"name": "Apache 2.0"}},
        "classified": {"license": {"name": "MIT License"}},
        "whole.text": {"license": {"name": "BSD License"}},
    }
