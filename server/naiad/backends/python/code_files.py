"""The files of a model's code: a model file in the version's folder, or that of a Python-based backend (rows 11.52, 15.1, 15.4)."""

import pathlib

import msgspec


class CodeFiles(msgspec.Struct, frozen=True, kw_only=True):
    """The files of a model version's code.

    Attributes:
        model_file: defines TritonPythonModel; modules beside it can be imported.
        root: modules in it can be imported, too; tracebacks show the lines of files below it.
        version_dir: the version's folder, where the model finds its data (`get_model_dir`).
    """

    model_file: pathlib.Path
    root: pathlib.Path
    version_dir: pathlib.Path

    def settings(self) -> dict[str, str]:
        """The same for a worker process."""
        return {
            "path": str(self.model_file),
            "root": str(self.root),
            "version_dir": str(self.version_dir),
        }


def code_files(
    filename: str,
    *,
    model_dir: pathlib.Path,
    version_dir: pathlib.Path,
    backend_file: pathlib.Path | None,
) -> CodeFiles:
    """The files of a model version.

    Args:
        filename: `default_model_filename` of the config.
        model_dir: the model's folder.
        version_dir: the version's folder.
        backend_file: the model.py of a Python-based backend, which serves all of its models; None for a model with a file of its own.
    """
    if backend_file is not None:
        return CodeFiles(model_file=backend_file, root=backend_file.parent, version_dir=version_dir)
    path = version_dir / (filename or "model.py")
    return CodeFiles(model_file=path, root=model_dir, version_dir=version_dir)
