"""The Dockerfiles copy what there is, install an extra that there is, and start a command that there is; what is trimmed."""

import os
import pathlib
import re
import subprocess
import sys
import tomllib

import pytest

ROOT = pathlib.Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
# The users that the operator gives to the pods (docs/operator.md).
IMAGES = {
    "Dockerfile.server": ("server,s3,gcs,azure", '["tritonserver", ', "1000:1000"),
    "Dockerfile.operator": ("operator", '["naiad-operator"]', "65532:65532"),
}


@pytest.mark.parametrize("name", IMAGES)
def test_an_image_is_made_of_what_the_tree_holds(name: str) -> None:
    text = (ROOT / name).read_text()
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    sources = [
        word
        for line in re.findall(r"^COPY (?!--from)(.*)$", text, re.MULTILINE)
        for word in line.split()[:-1]
    ]
    assert {"pyproject.toml", name.removeprefix("Dockerfile."), "wheel[s]"} <= set(sources)
    for source in sources:
        assert source == "wheel[s]" or (ROOT / source).exists()
        assert f"!{source.partition('/')[0].replace('[s]', 's')}" in ignored
    # hatchling reads these for the package's metadata
    assert {PROJECT["readme"], *PROJECT["license-files"]} <= set(sources)


@pytest.mark.parametrize(("name", "expected"), IMAGES.items())
def test_an_image_installs_extras_and_starts_its_command_without_a_shell(
    name: str, expected: tuple[str, str, str]
) -> None:
    extras, command, user = expected
    text = (ROOT / name).read_text()
    assert set(extras.split(",")) <= set(PROJECT["optional-dependencies"])
    assert f"ARG EXTRAS={extras}\n" in text or f'".[{extras}]"' in text
    assert command.strip('[], "') in PROJECT["scripts"]
    assert re.search(rf"^(CMD|ENTRYPOINT) {re.escape(command)}", text, re.MULTILINE)
    assert f"USER {user}\n" in text
    assert re.search(r"^  CMD \[\"python3\"", text, re.MULTILINE), "the health check is a list"
    assert f"ARG VERSION={PROJECT['version']}\n" in text


def test_trimming_removes_what_nothing_imports_and_compiles_the_rest(
    tmp_path: pathlib.Path,
) -> None:
    site = tmp_path / "lib" / "python3.11" / "site-packages"
    kept = (
        "botocore/data/s3/service.json",
        "botocore/data/endpoints.json",
        "numpy/core.py",
        "kubernetes/client/__init__.py",
    )
    removed = (
        "pip/__init__.py",
        "pip-23.0.dist-info/METADATA",
        "distutils-precedence.pth",
        "botocore/data/ec2/service.json",
        "numpy/tests/test_core.py",
        "kubernetes/aio/client/__init__.py",
        "onnxruntime/capi/libonnxruntime.so.1.31.1",
    )
    for name in (*kept, *removed):
        file = site / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("")
    subprocess.run([sys.executable, str(ROOT / "images/trim.py"), str(tmp_path)], check=True)
    assert all((site / name).exists() for name in kept)
    assert not any((site / name).exists() for name in removed)
    assert list(site.glob("numpy/__pycache__/core.*.pyc"))


@pytest.mark.parametrize(
    ("extra", "wanted", "unwanted"),
    [
        ("server", "onnxruntime", "onnxruntime-gpu"),
        ("server-gpu", "onnxruntime-gpu", "onnxruntime"),
    ],
)
def test_each_variant_of_the_server_resolves_to_one_onnxruntime(
    extra: str, wanted: str, unwanted: str
) -> None:
    """The two wheels overwrite each other. The GPU variant is too large to be built here; that its versions go together is seen."""
    extras = [word for name in (extra, "s3", "gcs", "azure") for word in ("--extra", name)]
    uv = pathlib.Path(sys.executable).with_name("uv")
    if not uv.exists():
        pytest.skip(
            "the environment was made by pip alone, whose resolution takes minutes of downloads"
        )
    options = ["--python", sys.executable, "--no-header", "--no-annotate", "-c", "constraints.txt"]
    environment = {**os.environ, "UV_SYSTEM_CERTS": "true", "UV_NATIVE_TLS": "true"}
    finished = subprocess.run(
        [str(uv), "pip", "compile", "--quiet", *options, *extras, "pyproject.toml"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    packages = {line.partition("==")[0] for line in finished.stdout.splitlines()}
    assert {wanted, "boto3", "google-cloud-storage"} <= packages
    assert unwanted not in packages
