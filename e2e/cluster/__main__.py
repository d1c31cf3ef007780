"""The command line of the cluster: `python -m e2e.cluster up | down | kubectl ARGUMENT … | run COMMAND …`."""

import os
import pathlib
import sys

from e2e.cluster import steps
from e2e.cluster.cluster import Cluster
from e2e.cluster.namespaces import ComponentError
from tests.toolchain import programs

_USAGE = "usage: python -m e2e.cluster up | down | kubectl ARGUMENT … | run COMMAND …"


def main(arguments: "list[str]") -> int:
    """Run one command; the exit status."""
    step = steps.printer()
    if not arguments:
        print(_USAGE, file=sys.stderr)
        return 2
    command, *rest = arguments
    cluster = Cluster(step=step)
    try:
        match command:
            case "up":
                cluster.up()
            case "down":
                cluster.down()
                step("down")
            case "kubectl" | "run" if not cluster.running:
                print("the cluster does not run: python -m e2e.cluster up", file=sys.stderr)
                return 1
            case "kubectl":
                line = cluster.run(cluster.programs["kubectl"], *rest)
                os.execvp(line[0], line)  # noqa: S606 - no shell is wanted
            case "run":
                line = cluster.run("env", f"PATH={_search_path()}", *rest)
                os.execvp(line[0], line)  # noqa: S606 - no shell is wanted
            case _:
                print(_USAGE, file=sys.stderr)
                return 2
    except ComponentError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _search_path() -> str:
    """With kubectl, helm and this environment's commands in front."""
    found = [*programs.find(["kubectl", "helm"]).paths.values(), pathlib.Path(sys.executable)]
    return ":".join([*(str(path.parent) for path in found), os.environ.get("PATH", "")])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
