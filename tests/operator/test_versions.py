"""Versions from text."""

import pytest

from naiad_operator import __version__, versions
from naiad_operator.versions import Version


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("0.2.0", Version(0, 2, 0)),
        ("v1.20.3", Version(1, 20, 3)),
        ("0.2.0-rc1", Version(0, 2, 0)),
        ("0.2.0.dev3+local", Version(0, 2, 0)),
        ("0.2.0_cuda12", Version(0, 2, 0)),
        ("", None),
        ("latest", None),
        ("1.2", None),
        ("0.2.0x", None),
        ("x0.2.0", None),
        ("1234567.0.0", None),
    ],
)
def test_what_is_a_version(text: str, version: Version | None) -> None:
    assert versions.parse(text) == version


def test_versions_are_ordered_by_number_and_written_as_they_are_read() -> None:
    assert Version(0, 10, 0) > Version(0, 9, 9)
    assert str(versions.OWN) == __version__
