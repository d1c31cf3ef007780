"""What a person needs when a story failed, shortened: collected and masked by the code of `naiad-operator report`, whose archive is kept."""

import asyncio
import datetime as dt
import json
import pathlib
from collections.abc import Iterable, Iterator, Sequence

from e2e.cluster.layout import default_folders
from e2e.kubernetes import KubectlError, Kubernetes
from naiad_operator.cluster import credentials
from naiad_operator.cluster.errors import ApiError, Unreachable
from naiad_operator.report import command, layout, selection, summary
from naiad_operator.report.collector import Collected, Request
from naiad_operator.status import pods
from naiad_operator.versions import OWN

_LONGEST_LINE = 240
_LINES = {"not ready": 15, "ready": 5, "operator": 15, "component": 10}
_LOGS_OF_READY_PODS = 3
_WARNINGS = 12
_PLANE = ("etcd", "kube-apiserver")


def describe(namespaces: Sequence[str], archive: pathlib.Path) -> str:
    """The state of a story's namespaces and of what they depend on, in about a hundred lines.

    Args:
        namespaces: of the story.
        archive: where the whole report is written; the text names it.
    """
    parts: list[str] = []
    files: dict[str, str] = {}
    try:
        for namespace in namespaces or ("naiad-system",):
            found = asyncio.run(_collected(namespace))
            parts += [*_summary(found), *_logs(found, namespace)]
            of_report = layout.files(found, own_version=str(OWN), time=_now())
            files |= {f"{namespace}/{name}": text for name, text in of_report.items()}
            parts += _components(_not_ready(found))
        parts += _elsewhere(namespaces)
    except Unreachable as error:
        parts += [str(error), *_components(_PLANE)]
    except (ApiError, credentials.CredentialsError, KubectlError) as error:
        parts.append(str(error))
    if files:
        parts.append(f"--- everything: {_write(files, archive)}")
    return "\n".join(_cut(line) for part in parts for line in part.splitlines())


def _write(files: "dict[str, str]", archive: pathlib.Path) -> str:
    """Where the archive is, or why there is none: in a pod the tree cannot be written to."""
    seconds = int(dt.datetime.now(dt.UTC).timestamp())
    try:
        archive.parent.mkdir(parents=True, exist_ok=True)
        archive.write_bytes(layout.archive(files, folder=archive.name.partition(".")[0], seconds=seconds))  # fmt: skip
    except OSError as error:
        return f"not kept, {error}"
    return str(archive)


async def _collected(namespace: str) -> Collected:
    request = Request(namespace=namespace, log_lines=300)
    return await command.read(await credentials.find(), request, lambda _: None)


def _summary(found: Collected) -> Iterator[str]:
    text = summary.text(
        found.snapshot, own_version=str(OWN), kubernetes=found.kubernetes, time=_now()
    )
    before, title, warnings = text.partition("\nWarnings")
    first, *rest = warnings.splitlines()
    yield before + title + "\n".join([first, *rest[-_WARNINGS:]])
    missing = [line for line in found.missing if "no operator" in line or "cannot" in line]
    if missing:
        yield "\n".join(["not collected", *(f"  {line}" for line in missing[:5])])


def _logs(found: Collected, namespace: str) -> Iterator[str]:
    """The ends of logs: of pods that are not ready, of some that are, and what the operator says of the namespace."""
    ready = 0
    for folder, pod in selection.pods_of(found.snapshot):
        if folder == selection.OPERATOR:
            yield from _operator_log(found, pod["metadata"]["name"], namespace)
            continue
        ready += pods.is_ready(pod)
        if ready > _LOGS_OF_READY_PODS:
            return
        state = "ready" if pods.is_ready(pod) else "not ready"
        prefix = f"{folder}/logs/{pod['metadata']['name']}/"
        for file, text in found.files.items():
            if file.startswith(prefix):
                name = file.removeprefix(f"{folder}/logs/")
                lines = text.splitlines()[-_LINES[state] :]
                yield "\n".join([f"--- log {name}, {state}", *map(readable, lines)])


def _operator_log(found: Collected, pod: str, namespace: str) -> Iterator[str]:
    for file, text in found.files.items():
        if file.startswith(f"{selection.OPERATOR}/logs/{pod}/"):
            about = [
                line
                for line in text.splitlines()
                if namespace in line or '"warning"' in line or '"error"' in line
            ]
            title = f"--- log of the operator {pod}: errors, and what is about {namespace}"
            lines = map(readable, about[-_LINES["operator"] :])
            yield "\n".join([title, *lines] if about else [f"{title}: nothing"])


def _not_ready(found: Collected) -> list[str]:
    """The components of nodes that are not Ready."""
    nodes = found.snapshot.get((selection.CLUSTER, selection.NODES.plural), [])
    bad = [node["metadata"]["name"] for node in nodes if not pods.is_ready(node)]
    return [f"{component}-{node}" for node in bad for component in ("kubelet", "containerd")]


def _components(names: Iterable[str]) -> Iterator[str]:
    """The ends of logs of this project's own cluster."""
    for name in names:
        log = default_folders().logs / f"{name}.log"
        if log.exists():
            lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
            yield "\n".join([f"--- {log}", *lines[-_LINES["component"] :]])


def _elsewhere(namespaces: Sequence[str]) -> Iterator[str]:
    """The pods of add-ons that are not ready."""
    table = Kubernetes("default").run("get", "pods", "-A", "--no-headers")
    lines = [line for line in table.splitlines() if is_unready(line.split(), namespaces)]
    if lines:
        yield "\n".join(["--- other pods that are not ready", *lines])


def is_unready(fields: "list[str]", namespaces: Sequence[str]) -> bool:
    """Whether a line of `kubectl get pods -A` is about a pod outside of these namespaces that does not serve."""
    namespace, _, ready, status, *_ = fields
    serving, _, wanted = ready.partition("/")
    return namespace not in namespaces and status != "Completed" and serving != wanted


def readable(line: str) -> str:
    """A line of a log that begins with the time: of JSON its level, subject and message."""
    at, _, rest = line.partition(" ")
    try:
        fields = json.loads(rest)
    except ValueError:
        return line
    if not isinstance(fields, dict) or "message" not in fields:
        return line
    about = f" [{fields['object']}]" if fields.get("object") else ""
    return f"{at[11:23]} {fields.get('level', '')}{about} {fields['message']} {fields.get('exception', '')}".rstrip()  # fmt: skip


def _cut(line: str) -> str:
    return line if len(line) <= _LONGEST_LINE else f"{line[: _LONGEST_LINE - 1]}…"


def _now() -> str:
    return f"{dt.datetime.now(dt.UTC):%Y-%m-%dT%H:%M:%SZ}"
