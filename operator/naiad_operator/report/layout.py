"""The files of a report, and the archive. Pure: texts in, bytes out."""

import collections.abc
import gzip
import io
import tarfile

import yaml

from naiad_operator.report import summary
from naiad_operator.report.collector import Collected
from naiad_operator.report.selection import Object

SUMMARY, MISSING = "summary.txt", "not-collected.txt"

_ABOUT_MISSING = """\
What this report does not have, and why. Secrets and ConfigMaps are never read; so the values of the chart are missing, which Helm keeps in a
Secret (`helm get values` prints them). What was masked is replaced by ***.
"""
_DUMPER: type = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
"""The one in C, where PyYAML has it, is ten times faster."""


def files(collected: Collected, *, own_version: str, time: str) -> dict[str, str]:
    """Every file by its name, the summary first.

    Args:
        collected: the report.
        own_version: of the command.
        time: when the report was made, for its first line.
    """
    first = summary.text(
        collected.snapshot, own_version=own_version, kubernetes=collected.kubernetes, time=time
    )
    missing = [*collected.missing]
    if collected.unserved:
        missing.append(f"the API server does not serve {', '.join(sorted(collected.unserved))}")
    lines = "".join(f"* {line}\n" for line in missing)
    objects = {
        f"{folder}/{plural}.yaml": _yaml(items)
        for (folder, plural), items in sorted(collected.snapshot.items())
        if items
    }
    logs = dict(sorted(collected.files.items()))
    return {SUMMARY: first, MISSING: _ABOUT_MISSING + lines, **objects, **logs}


def archive(contents: collections.abc.Mapping[str, str], *, folder: str, seconds: int) -> bytes:
    """A tar.gz with the files in one folder.

    Args:
        contents: the files by name.
        folder: the folder.
        seconds: their time of change, in seconds since 1970.
    """
    whole = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=whole, mode="wb", mtime=seconds) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        for name, text in contents.items():
            content = text.encode(errors="replace")
            member = tarfile.TarInfo(f"{folder}/{name}")
            member.size, member.mtime, member.mode = len(content), seconds, 0o644
            tar.addfile(member, io.BytesIO(content))
    return whole.getvalue()


def _yaml(items: list[Object]) -> str:
    # Long lines stay whole, so that they can be searched.
    written: str = yaml.dump_all(
        items, Dumper=_DUMPER, sort_keys=False, width=1_000_000, allow_unicode=True
    )
    return written
