"""A made-up GPU with a made-up TensorRT, for processes of tests: `folder()` goes onto PYTHONPATH."""

import pathlib

HERE = pathlib.Path(__file__).parent


def install(folder: pathlib.Path) -> pathlib.Path:
    """Fill a folder that, on PYTHONPATH, gives a process the package `tensorrt` and a CUDA runtime."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tensorrt").symlink_to(HERE / "tensorrt")
    (folder / "made_up_cuda.py").symlink_to(HERE / "cuda.py")
    (folder / "sitecustomize.py").symlink_to(HERE / "startup.py")
    return folder
