"""Removes from an environment what no program of an image uses, and compiles the rest: run in the build stage of the Dockerfiles.

    python3 trim.py /opt/naiad

Nothing is removed that a program could import by itself: tests of packages, service descriptions of AWS services that no object store
needs, the second copy of the package `kubernetes` for asyncio, the C++ library of onnxruntime (the Python binding has it built in on CPU),
pip and setuptools.
"""

import compileall
import pathlib
import py_compile
import shutil
import sys

_AWS_SERVICES = {"s3", "sts", "sso", "sso-oidc", "signin"}
"""What boto3's credential chain and its S3 client read."""

_PACKAGES = ("pip", "setuptools", "pkg_resources", "_distutils_hack", "wheel")


def unused(site: pathlib.Path) -> "list[pathlib.Path]":
    """What is removed from a `site-packages`."""
    paths = [
        path for name in _PACKAGES for path in (site / name, *site.glob(f"{name}-*.dist-info"))
    ]
    paths += site.glob("distutils-precedence.pth")  # of setuptools: Python runs it at each start
    paths += [path for path in site.rglob("tests") if path.is_dir()]
    paths += site.glob("onnxruntime/capi/libonnxruntime.so*")
    paths += site.glob("kubernetes/aio")
    paths += [path for path in site.glob("botocore/data/*/") if path.name not in _AWS_SERVICES]
    paths += site.rglob("__pycache__")
    return [path for path in paths if path.exists()]


def main(environment: pathlib.Path) -> None:
    """Trim an environment in place."""
    for command in environment.glob("bin/pip*"):
        command.unlink()  # it would fail, and hide the base image's own pip
    for site in environment.glob("lib/python*/site-packages"):
        for path in unused(site):
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
        # Not for the file's time but its content: the image is the same whenever it is built.
        mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
        compileall.compile_dir(site, quiet=2, workers=0, invalidation_mode=mode)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
