"""The namespaces of the control plane and of each node: started by their first process, entered by `nsenter`.

Each component is a process in them with a log file of its own. All are nested in the control plane's pid namespace, so one kill ends
everything.
"""

import atexit
import contextlib
import dataclasses
import pathlib
import subprocess
import time
from collections.abc import Callable, Sequence

_INIT = pathlib.Path(__file__).parent / "init"
_SEPARATE = ("--mount", "--net", "--pid", "--uts", "--ipc")
_LAST_LINES = 15
_STEP_S = 0.02

_JOIN = 'while [ "$1" != -- ]; do echo 0 > "$1" || exit 9; shift; done; shift; exec "$@"'
"""A shell program: joins the cgroups of the files before `--`, and becomes the command behind it."""

_NO_PROXY = ("NO_PROXY=*", "no_proxy=*")

_started: "list[subprocess.Popen[bytes]]" = []
"""Programs outlive the functions that started them, and this process; Python warns of one that runs and that no variable refers to any more."""


@atexit.register
def _leave_running() -> None:
    for process in _started:
        process.returncode = process.poll() or 0


class ComponentError(RuntimeError):
    """A component ended or did not come up; the message has its name and its last log lines."""


@dataclasses.dataclass(frozen=True, slots=True)
class Cgroup:
    """The cgroup of namespaces: files `cgroup.procs`, one per hierarchy.

    Attributes:
        root: of the cgroup that is the root of all within the namespaces.
        leaf: of the one, it or a child, that their processes are in.
    """

    root: Sequence[str]
    leaf: Sequence[str]


@dataclasses.dataclass(frozen=True, slots=True)
class Namespaces:
    """Namespaces with a running first process.

    Attributes:
        name: of the node, or `control-plane`.
        pid: of the first process, as the machine sees it.
        joined: the files `cgroup.procs` of their processes' cgroup, if they have a cgroup namespace (nodes do).
    """

    name: str
    pid: int
    joined: Sequence[str] = ()

    @property
    def alive(self) -> bool:
        """Whether the first process runs."""
        with contextlib.suppress(OSError):
            return f"{_INIT}/".encode() in pathlib.Path(f"/proc/{self.pid}/cmdline").read_bytes()
        return False

    def entered(self, *command: str) -> list[str]:
        """The command line that runs a command in all of them. Paths must be absolute: the current folder is lost."""
        flags = ["-m", "-n", "-p", "-u", "-i", *(["-C"] if self.joined else [])]
        # Joined from outside: systemd mounts version 2 such that no process may cross the border of a cgroup namespace from within it.
        return joining(self.joined, "nsenter", "-t", str(self.pid), *flags, "--", *command)

    def networked(self, *command: str) -> list[str]:
        """The command line that runs a command in the network namespace alone, with the machine's files. No proxy can be reached from there."""
        return ["nsenter", f"--net=/proc/{self.pid}/ns/net", "--", "env", *_NO_PROXY, *command]

    def path(self, path: str) -> pathlib.Path:
        """A path of theirs, as the machine sees it."""
        return pathlib.Path(f"/proc/{self.pid}/root{path}")


@dataclasses.dataclass(frozen=True, slots=True)
class Component:
    """A started program.

    Attributes:
        name: what messages call it; its log is `<name>.log`.
        process: the program, or the `nsenter` or `unshare` that waits for it.
        log: its output.
    """

    name: str
    process: "subprocess.Popen[bytes]"
    log: pathlib.Path

    def check(self) -> None:
        """Raises a `ComponentError` if the program has ended."""
        code = self.process.poll()
        if code is not None:
            raise ComponentError(f"{self.name} ended with status {code}. {self.last_lines()}")

    def last_lines(self) -> str:
        """The end of its log, with where the rest is."""
        text = self.log.read_text(encoding="utf-8", errors="replace")
        lines = text.splitlines()[-_LAST_LINES:]
        return "\n  ".join([f"The last lines of {self.log}:", *(lines or ["(empty)"])])


def start(
    name: str, command: Sequence[str], logs: pathlib.Path, *, search: Sequence[pathlib.Path] = ()
) -> Component:
    """Starts a program that outlives this process, without its environment.

    runc would make files in a login's XDG_RUNTIME_DIR, which nodes do not see, and components would look for each other behind a proxy.

    Args:
        name: of the component.
        command: its command line.
        logs: the folder of its log.
        search: folders put in front of its PATH.
    """
    logs.mkdir(parents=True, exist_ok=True)
    log = logs / f"{name}.log"
    path = ":".join([*(str(folder) for folder in search), "/usr/sbin:/usr/bin:/sbin:/bin"])
    with log.open("ab") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            env={"PATH": path},
        )
    _started.append(process)
    return Component(name, process, log)


def create(
    name: str,
    arguments: Sequence[str],
    ready: pathlib.Path,
    logs: pathlib.Path,
    *,
    inside: Namespaces | None = None,
    cgroup: Cgroup | None = None,
) -> Namespaces:
    """Makes namespaces; returns when their first process has set them up.

    Args:
        name: of the node, or `control-plane`.
        arguments: of the first process, behind the name of its script in `init/`.
        ready: the file that the first process makes when everything is set up.
        logs: the folder of its log.
        inside: the namespaces that these are nested in.
        cgroup: theirs, with a cgroup namespace; None for neither.

    Raises:
        ComponentError: the first process ended or took too long.
    """
    ready.unlink(missing_ok=True)
    script, *rest = arguments
    command = ["unshare", *_SEPARATE, "--fork", "--kill-child", "--mount-proc"]
    command += ["bash", str(_INIT / script), *rest]
    depth = 1
    if cgroup:
        separated = ["unshare", "--cgroup", *joining(cgroup.leaf, *command)]
        command = joining(cgroup.root, *separated)
    if inside is not None:
        command = inside.entered(*command)
        depth = 2  # nsenter waits for the unshare that it has forked
    component = start(f"init-{name}", command, logs)
    wait(f"the namespaces of {name}", ready.exists, [component])
    pid = component.process.pid
    for _ in range(depth):
        pid = _child(pid)
    return Namespaces(name, pid, cgroup.leaf if cgroup else ())


def joining(files: Sequence[str], *command: str) -> list[str]:
    """The command line that joins the cgroups of some files `cgroup.procs` and becomes a command."""
    return ["bash", "-c", _JOIN, "join", *files, "--", *command] if files else list(command)


def processes(program: str, word: str) -> list[int]:
    """The process ids of a program that was started with `word` in its arguments."""
    found = []
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            own, _, arguments = (folder / "cmdline").read_bytes().partition(b"\0")
            if own == program.encode() and word.encode() in arguments:
                found.append(int(folder.name))
    return found


def exists(pid: int) -> bool:
    """Whether there is a process of this id."""
    return pathlib.Path(f"/proc/{pid}").exists()


def wait(
    subject: str,
    condition: Callable[[], bool],
    components: Sequence[Component] = (),
    *,
    timeout: float = 60,
) -> None:
    """Waits until a condition holds. `OSError` counts as "not yet".

    Raises:
        ComponentError: a component ended meanwhile, or the condition did not hold in time.
    """
    deadline = time.monotonic() + timeout
    while True:
        with contextlib.suppress(OSError):
            if condition():
                return
        for component in components:
            component.check()
        if time.monotonic() > deadline:
            logs = "\n".join(component.last_lines() for component in components)
            raise ComponentError(f"{subject}: not there after {timeout:g} s. {logs}")
        time.sleep(_STEP_S)


def _child(pid: int) -> int:
    children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return int(children[0])
