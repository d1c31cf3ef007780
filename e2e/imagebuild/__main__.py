"""Builds both images: `python -m e2e.imagebuild [FOLDER]` writes an archive and an SBOM for each into FOLDER (build/images) and prints sizes."""

import pathlib
import signal
import sys

from e2e.cluster import steps
from e2e.imagebuild.build import PARTS, Images
from e2e.imagebuild.buildah import BuildahError

_ROOT = pathlib.Path(__file__).resolve().parents[2]


def main(arguments: "list[str]") -> int:
    """Build; the exit status."""
    folder = pathlib.Path(arguments[0] if arguments else _ROOT / "build" / "images").resolve()
    say = steps.printer()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # otherwise mounts would stay
    try:
        with Images(_ROOT, folder, say) as images:
            images.prepare()
            for part in PARTS:
                image = images.build(part)
                say(f"{image.name}{'' if image.is_new else ', as it was:'} {image.megabytes:.0f} MB without the base ({image.limit} MB at most), {image.packages} packages, {image.archive}")  # fmt: skip
    except BuildahError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted: the next build goes on from here", file=sys.stderr)
        return 128 + signal.SIGINT
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
