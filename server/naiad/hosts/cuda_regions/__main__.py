"""The process that opens clients' memory on GPUs: `python -m naiad.hosts.cuda_regions`, started by `memory`. It ends with the server."""

import contextlib

from naiad.core.processes import child_process
from naiad.hosts.cuda_regions.allocations import Allocations
from naiad.hosts.link.link import Link, LinkBrokenError

if __name__ == "__main__":
    with contextlib.suppress(LinkBrokenError):
        Allocations(Link(child_process.connect())).serve()
