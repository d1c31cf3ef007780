"""`make large-requests`: every large request at its full size, and how late each one made the event loop.

python -m tests.large_requests [MEGABYTES [PART OF A NAME …]]
"""

import pathlib
import sys
import tempfile

from tests.large_requests import models
from tests.large_requests.cases import ALL
from tests.large_requests.measuring import measure
from tests.reference.process import ServerProcess, naiad_program

_BOUND_MS = 50
_MEGABYTES = 64
_OVERHEAD = 400_000
"""What JSON and headers take beside the elements: the body has to stay below --http-max-input-size, 64 MiB."""


def main() -> int:
    """Print a line per request; 1 when one is above the bound or has an unexpected status."""
    megabytes = float(sys.argv[1]) if len(sys.argv) > 1 else _MEGABYTES
    wanted = sys.argv[2:]
    size = int(megabytes * 2**20) - _OVERHEAD
    bad = 0
    with tempfile.TemporaryDirectory() as folder:
        repository = models.make(pathlib.Path(folder, "models"))
        log = pathlib.Path(folder, "server.log")
        options = ["--model-control-mode=explicit", "--load-model=*", "--log-format=json"]
        with ServerProcess(naiad_program(), [repository], log=log, options=options) as server:
            print(f"{'request':36} {'status':>6} {'seconds':>8} {'lag ms':>8} {'delay ms':>9}")
            for case in ALL:
                if wanted and not any(part in case.name for part in wanted):
                    continue
                try:
                    measured = measure(server, case, size)
                except OSError as error:
                    print(f"{case.name:36} failed: {error}", flush=True)
                    bad += 1
                    continue
                late = measured.lag_ms > _BOUND_MS
                wrong = measured.status not in case.statuses
                bad += late or wrong
                print(
                    f"{case.name:36} {measured.status:6} {measured.seconds:8.2f} {measured.lag_ms:8.1f} {measured.run_delay_ms:9.1f}"
                    f"{'  LATE' if late else ''}{f'  UNEXPECTED {measured.reply!r}' if wrong else ''}",
                    flush=True,
                )
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
