"""The command line of the cluster: `python -m e2e.cluster up | down | kubectl ARGUMENT … | run COMMAND …`."""

import os
import sys

from e2e.cluster import steps
from e2e.cluster.cluster import Cluster
from e2e.cluster.namespaces import ComponentError

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
                line = cluster.run(*rest)
                os.execvp(line[0], line)  # noqa: S606 - no shell is wanted
            case _:
                print(_USAGE, file=sys.stderr)
                return 2
    except ComponentError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
