"""A GPU in MIG mode that is made up: a module `pynvml` for the server's PYTHONPATH, and a model whose instances say which slice is theirs."""

import pathlib

FOLDER = pathlib.Path(__file__).parent
MODULE = FOLDER / "pynvml.py"
MODELS = FOLDER / "model_repository"
MODEL = "which_slice"
DRIVER = "libnvidia-ml.so.1"
"""The library that the server loads before it imports pynvml; any library does."""

MEETING = "MEETING"
"""The environment variable with a folder, in which the instances of the model wait for each other."""
