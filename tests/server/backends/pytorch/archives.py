"""PyTorch model files by their structure alone, made without torch."""

import io
import pathlib
import pickle
import zipfile


def script(path: pathlib.Path, forward: str = "x: Tensor", *, name: str = "Net") -> pathlib.Path:
    """A TorchScript archive whose model has such a `forward`; it holds no weights, so that torch would not load it."""
    code = (
        f"class {name}(Module):\n  __parameters__ = []\n  training : bool\n"
        f"  def forward(self: __torch__.{name}, {forward}) -> Tensor:\n    return x\n"
    )
    pickled = b"\x80\x02c__torch__\n" + name.encode() + b"\nq\x00)\x81q\x01}q\x02b."
    return zipped(
        path,
        {
            "data.pkl": pickled,
            "code/__torch__.py": code.encode(),
            "constants.pkl": b"\x80\x02).",
            "version": b"3\n",
        },
    )


def checkpoint(path: pathlib.Path) -> pathlib.Path:
    """What `torch.save` writes."""
    return zipped(path, {"data.pkl": pickle.dumps({}), "version": b"3\n"})


def exported(path: pathlib.Path) -> pathlib.Path:
    """What `torch.export.save` writes."""
    return zipped(
        path, {"archive_format": b"pt2", "models/model.json": b"{}", "data/weights/weight_0": b""}
    )


def compiled(path: pathlib.Path) -> pathlib.Path:
    """What AOTInductor packages."""
    return zipped(path, {"archive_format": b"pt2", "data/aotinductor/model/x.wrapper.so": b""})


def zipped(path: pathlib.Path, files: dict[str, bytes]) -> pathlib.Path:
    """A zip archive with these files in one folder."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, data in files.items():
            archive.writestr(f"model/{name}", data)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.getvalue())
    return path


def renamed(path: pathlib.Path, old: bytes, new: bytes) -> None:
    """Replace a text in every file of an archive."""
    with zipfile.ZipFile(path) as made:
        files = {
            name.partition("/")[2]: made.read(name).replace(old, new) for name in made.namelist()
        }
    zipped(path, files)
