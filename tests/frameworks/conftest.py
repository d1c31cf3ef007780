"""Which of these tests this environment can run: a folder whose framework is not installed is left out, so that `make test` needs none of them."""

import importlib.util

_FRAMEWORKS = {
    "broken": "torch",
    "caffe2": "torch",
    "dali": "nvidia.dali",
    "fil": "treelite",
    "mixed": "torch",
    "openvino": "openvino",
    "pytorch": "torch",
    "tensorflow": "tensorflow",
}
"""The package that the tests of a folder import."""


def _is_installed(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except ModuleNotFoundError:  # of the package around it
        return False


collect_ignore = [folder for folder, package in _FRAMEWORKS.items() if not _is_installed(package)]
