"""Which of these tests this environment can run: a folder whose framework is not installed is left out, so that `make test` needs none of them."""

import importlib.util

_FRAMEWORKS = {"openvino": "openvino", "pytorch": "torch", "tensorflow": "tensorflow"}
"""The package that the tests of a folder import."""

collect_ignore = [
    folder for folder, package in _FRAMEWORKS.items() if importlib.util.find_spec(package) is None
]
