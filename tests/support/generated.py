"""Every file that is made from another one, and what it should say."""

import collections.abc
import contextlib
import functools
import io
import pathlib
import typing

from naiad.options.options import FLAGS, Flag
from naiad_operator import cli, options
from naiad_operator.api.manifests import yaml_text
from naiad_operator.api.schema import crd, reference, resources
from tests.support import helm, manifests

ROOT = pathlib.Path(__file__).parent.parent.parent
INSTALL = ROOT / "manifests" / "install.yaml"
INSIDE = ROOT / "docs" / "operator-inside.md"
PROFILES = ROOT / "docs" / "profiles.md"
CONVERTED = ROOT / "tests" / "data" / "convert"
SERVER_FLAGS = ROOT / "operator" / "naiad_operator" / "builders" / "server_flags.py"
NAMESPACE = "naiad-system"

_ORDER = (
    "CustomResourceDefinition",
    "ServiceAccount",
    "ClusterRole",
    "ClusterRoleBinding",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "Deployment",
)
"""What the chart makes by default, in the order in which a file can be applied."""

_INSTALL_HEAD = """\
# The operator, cluster-wide, as `helm install naiad charts/naiad -n naiad-system` makes it. Made from the chart by `make generate`.
"""


def files() -> dict[pathlib.Path, collections.abc.Callable[[], str]]:
    """What makes the text of every generated file that needs nothing but Python."""
    found: dict[pathlib.Path, collections.abc.Callable[[], str]] = {
        ROOT / "docs" / "inferenceservice.md": reference.page,
        PROFILES: lambda: _with_part(PROFILES.read_text(), "fields", reference.profile_fields()),
        SERVER_FLAGS: lambda: _with_part(SERVER_FLAGS.read_text(), "flags", _server_flags(), "# "),
        INSIDE: lambda: _with_part(INSIDE.read_text(), "options", options.table()),
    }
    for resource in (resources.SERVICE, resources.PROFILE):
        suffix = "" if resource is resources.SERVICE else f"-{resource.plural}"
        found[ROOT / "crds" / f"{resource.crd_name}.yaml"] = functools.partial(_crd, resource)
        found[ROOT / "charts" / "naiad" / "files" / f"crd{suffix}.yaml"] = functools.partial(
            _crd, resource, {"helm.sh/resource-policy": "keep"}
        )
    for name in ("alerts.yaml", "dashboard.json", "prometheus-adapter-values.yaml"):
        source = ROOT / "manifests" / "monitoring" / name
        found[ROOT / "charts" / "naiad" / "files" / name] = source.read_text
    for path in sorted(CONVERTED.glob("*.yaml")):
        found[CONVERTED / "expected" / f"{path.stem}.txt"] = functools.partial(_conversion, path)
    for path in manifests.INPUTS:
        found[manifests.expected(path)] = functools.partial(_example, path)
    return found


def _example(path: pathlib.Path) -> str:
    return f"{manifests.reason(path)}\n{yaml_text.write(manifests.built(path))}"


def _conversion(path: pathlib.Path) -> str:
    """What a user of `naiad-operator convert` sees of a file: first the list of what did not fit, then the service."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = cli.main(["convert", "-f", str(path)])
    listed = err.getvalue().replace(str(path), path.name)
    return f"{listed}\n{out.getvalue()}\nexit status {status}\n"


def _with_part(page: str, name: str, text: str, comment: str = "") -> str:
    """A page with this text between the marks of that name; the rest of it is written by hand."""
    begin, end = f"{comment}<!-- {name} -->\n", f"{comment}<!-- /{name} -->\n"
    before, _, rest = page.partition(begin)
    return f"{before}{begin}{text}{end}{rest.partition(end)[2]}"


def _server_flags() -> str:
    """The table of the server's options in the operator, which does not import the server. The list of 0.1.0 has only those with an effect."""
    first = (manifests.DATA / "server-options-0.1.0.txt").read_text().split()
    rows = "".join(f"    {name!r}: {_server_flag(flag, first)},\n" for name, flag in FLAGS.items())
    return f"FLAGS: dict[str, Flag] = {{\n{rows}}}  # fmt: skip\n".replace("'", '"')


_CHOICES = {"model-control-mode": ("none", "poll", "explicit")}
"""The values of options with a syntax of their own, where these are words."""


def _server_flag(flag: Flag, first: typing.Sequence[str]) -> str:
    is_special = not (flag.field or flag.idle or flag.missing)
    fields: dict[str, typing.Any] = {
        "since": "" if f"--{flag.name}" in first or flag.idle or flag.missing else "0.2.0",
        "minimum": flag.minimum,
        "maximum": flag.maximum,
        "choices": flag.choices or _CHOICES.get(flag.name, ()),
        "idle": flag.idle,
        "missing": flag.missing,
        "harmless": flag.harmless,
    }
    kind = "string" if is_special and flag.name != "strict-model-config" else flag.kind.value
    written = [f"{name}={value!r}" for name, value in fields.items() if value not in (None, "", ())]
    return f"Flag({', '.join([repr(kind), *written])})"


def _crd(resource: resources.CustomResource, annotations: dict[str, str] | None = None) -> str:
    """A definition. The chart's are annotated: they stay when the chart is uninstalled, since services would go with them."""
    definition = crd.definition(resource)
    if annotations:
        definition["metadata"]["annotations"] = annotations
    return yaml_text.write([definition])


def install() -> str:
    """What manifests/install.yaml should say; needs Helm."""
    namespace = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {
            "name": NAMESPACE,
            "labels": {"pod-security.kubernetes.io/enforce": "restricted"},
        },
    }
    objects = helm.manifests(name="naiad", namespace=NAMESPACE)
    objects.sort(key=lambda manifest: _ORDER.index(manifest["kind"]))
    return _INSTALL_HEAD + yaml_text.write([namespace, *(_without_helm(o) for o in objects)])


def _without_helm(manifest: dict[str, typing.Any]) -> dict[str, typing.Any]:
    """The object without what only Helm reads."""
    metadata = dict(manifest["metadata"])
    labels = {k: v for k, v in metadata.get("labels", {}).items() if k != "helm.sh/chart"}
    labels.pop("app.kubernetes.io/managed-by", None)
    metadata["labels"] = labels
    metadata.pop("annotations", None)
    return {**manifest, "metadata": metadata}
