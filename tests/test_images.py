"""The Dockerfiles copy what there is, install an extra that there is, and start a command that there is; what is trimmed."""

import http.server
import json
import os
import pathlib
import re
import subprocess
import sys
import threading
import tomllib

import pytest
import typing_extensions

ROOT = pathlib.Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
# The users that the operator gives to the pods (docs/operator.md).
IMAGES = {
    "Dockerfile.server": ("server,s3,gcs,azure,huggingface,oci", '["tritonserver", ', "1000:1000"),
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


class _Healthy(http.server.BaseHTTPRequestHandler):
    """Answers every request with 200."""

    def do_GET(self) -> None:
        self.send_response(http.HTTPStatus.OK)
        self.end_headers()

    @typing_extensions.override
    def log_message(self, *_: object) -> None:
        """Logs nothing."""


@pytest.mark.parametrize("name", IMAGES)
def test_the_health_check_uses_no_proxy_of_the_environment(name: str) -> None:
    """Docker sets these variables in every container where its configuration has proxies."""
    text = (ROOT / name).read_text()
    command = json.loads(re.findall(r"^  CMD (\[.*\])$", text, re.MULTILINE)[0])
    with http.server.HTTPServer(("127.0.0.1", 0), _Healthy) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        port = re.sub(r"127\.0\.0\.1:\d+", f"127.0.0.1:{server.server_port}", command[2])
        finished = subprocess.run(
            [sys.executable, "-c", port],
            env={**os.environ, "http_proxy": "http://127.0.0.1:9", "no_proxy": ""},
            check=False,
            capture_output=True,
            text=True,
        )
        server.shutdown()
        serving.join()
    assert finished.returncode == 0, finished.stderr


@pytest.mark.parametrize(
    ("name", "what"),
    [("Dockerfile.server", "EXTRAS=server,s3"), ("Dockerfile.operator", "the operator")],
)
def test_a_wheel_that_the_local_folder_lacks_is_said_with_what_to_do(
    tmp_path: pathlib.Path, name: str, what: str
) -> None:
    """As when `make images` has left those of another architecture, Python or list of extras."""
    run = (ROOT / name).read_text().partition("\nRUN ")[2].partition("\n\n")[0]
    (tmp_path / "wheels").mkdir()
    for file in ("pyproject.toml", "constraints.txt"):
        (tmp_path / "wheels" / file).write_text((ROOT / file).read_text())
    (tmp_path / "wheels" / "other-1-py3-none-any.whl").write_text("")
    finished = subprocess.run(
        ["sh", "-c", run.replace("\\\n", " ").replace("/opt/naiad", f"{tmp_path}/naiad")],
        cwd=tmp_path,
        env={**os.environ, "EXTRAS": "server,s3"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 1
    assert f"wheels/ lacks a wheel for {what} on " in finished.stderr
    assert "add it, or remove wheels/ to use the index" in finished.stderr


@pytest.mark.parametrize(
    ("name", "package"), [("Dockerfile.server", "naiad"), ("Dockerfile.operator", "naiad_operator")]
)
def test_an_image_has_only_the_commands_of_its_own_package(name: str, package: str) -> None:
    """The project is one distribution, and an image leaves one of its two packages out."""
    (removed,) = re.findall(r"rm -rf (/own/opt/naiad/lib\S+.*) \\", (ROOT / name).read_text())
    scripts = PROJECT["scripts"].items()
    others = [command for command, place in scripts if place.partition(".")[0] != package]
    assert {word.rpartition("/")[2] for word in removed.split() if "/bin/" in word} == set(others)


def test_a_base_with_an_entrypoint_or_a_user_of_its_own_changes_nothing() -> None:
    """An image that sets only CMD inherits ENTRYPOINT, and its build stages inherit USER."""
    for name in IMAGES:
        text = (ROOT / name).read_text()
        assert "\nFROM ${BASE} AS packages\nUSER 0\n" in text
        assert re.search(r"^ENTRYPOINT \[", text, re.MULTILINE)


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
    commands = tmp_path / "bin"
    commands.mkdir()
    for name in ("naiad", "pip", "pip3", "pip3.11", "python3"):
        (commands / name).write_text("")
    subprocess.run([sys.executable, str(ROOT / "images/trim.py"), str(tmp_path)], check=True)
    assert all((site / name).exists() for name in kept)
    assert not any((site / name).exists() for name in removed)
    assert list(site.glob("numpy/__pycache__/core.*.pyc"))
    assert {file.name for file in commands.iterdir()} == {"naiad", "python3"}


def resolved(extras: str, *options: str) -> "set[str]":
    """The requirements `name==version` that extras resolve to with the constraints, as they are written there."""
    uv = pathlib.Path(sys.executable).with_name("uv")
    if not uv.exists():
        pytest.skip(
            "the environment was made by pip alone, whose resolution takes minutes of downloads"
        )
    named = [word for name in extras.split(",") for word in ("--extra", name)]
    general = ["--quiet", "--no-header", "--no-annotate", "-c", "constraints.txt"]
    finished = subprocess.run(
        [str(uv), "pip", "compile", *general, *options, *named, "pyproject.toml"],
        cwd=ROOT,
        env={**os.environ, "UV_SYSTEM_CERTS": "true", "UV_NATIVE_TLS": "true"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    return {canonical(line) for line in finished.stdout.splitlines()}


def canonical(requirement: str) -> str:
    """A requirement `name==version` with the name as indexes have it."""
    name, _, version = requirement.partition("==")
    return f"{re.sub('[-_.]+', '-', name).lower()}=={version}"


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
    requirements = resolved(f"{extra},s3,gcs,azure", "--python", sys.executable)
    packages = {requirement.partition("==")[0] for requirement in requirements}
    assert {wanted, "boto3", "google-cloud-storage"} <= packages
    assert unwanted not in packages


@pytest.mark.parametrize(
    "platform",
    # the oldest C library that all wheels run on: onnxruntime-gpu for arm64 needs that of Ubuntu 22.04
    ["x86_64-manylinux_2_28", "aarch64-manylinux_2_35"],
)
@pytest.mark.parametrize(
    "extras",
    ["server,s3,gcs,azure,huggingface,oci", "server-gpu,s3,gcs,azure,huggingface,oci", "operator"],
)
def test_images_install_wheels_of_the_versions_that_were_tried_on_both_architectures(
    extras: str, platform: str
) -> None:
    options = ("--only-binary", ":all:", "--python-version", "3.11", "--python-platform", platform)
    tried = map(canonical, (ROOT / "constraints.txt").read_text().splitlines())
    assert resolved(extras, *options) <= set(tried)
