"""Wheels for tests, written by hand: installing them needs no network and takes no time."""

import pathlib
import zipfile


def wheel(
    folder: pathlib.Path,
    name: str,
    version: str,
    source: str,
    requires: tuple[str, ...] = (),
    *,
    package: bool = False,
) -> pathlib.Path:
    """A wheel with one module, or package, of the wheel's name."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-{version}-py3-none-any.whl"
    info = f"{name}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    metadata += "".join(f"Requires-Dist: {require}\n" for require in requires)
    files = {
        f"{name}/__init__.py" if package else f"{name}.py": source,
        f"{info}/METADATA": metadata,
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    files[f"{info}/RECORD"] = "".join(f"{each},,\n" for each in [*files, f"{info}/RECORD"])
    with zipfile.ZipFile(path, "w") as archive:
        for each, text in files.items():
            archive.writestr(
                zipfile.ZipInfo(each), text
            )  # a fixed date: equal wheels are equal files
    return path
