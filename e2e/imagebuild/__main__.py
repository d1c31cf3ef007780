"""Builds both images: `python -m e2e.imagebuild [FOLDER]` writes an archive and an SBOM for each into FOLDER (build/images) and prints sizes."""

import pathlib
import sys
import tomllib

from e2e.imagebuild.build import Images
from e2e.imagebuild.buildah import BuildahError

_ROOT = pathlib.Path(__file__).resolve().parents[2]


def main(arguments: "list[str]") -> int:
    """Build; the exit status."""
    folder = pathlib.Path(arguments[0] if arguments else _ROOT / "build" / "images").resolve()
    version = tomllib.loads((_ROOT / "pyproject.toml").read_text())["project"]["version"]
    images = Images(_ROOT, folder, version)
    try:
        for image in images.build():
            print(
                f"{image.name:30} {image.megabytes:4.0f} MB without the base ({image.limit} MB at most)"
                f"  {image.packages} packages  {image.archive}"
            )
    except BuildahError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
