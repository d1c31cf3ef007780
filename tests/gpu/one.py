"""Runs one GPU check in this process, which has a CUDA context only for that long: `python -m tests.gpu.one MODULE:CHECK FOLDER GPU` writes what it saw to FOLDER."""

import contextlib
import importlib
import json
import os
import pathlib
import signal
import sys
import traceback

from tests.gpu.bench import Bench
from tests.gpu.machine import Gpu

RESULT = "result.json"


def main(check: str, folder: pathlib.Path, gpu: Gpu) -> None:
    """Run it; the file is written whatever happens."""
    module, _, name = check.partition(":")
    bench = Bench(folder, gpu)
    bench.models.mkdir(parents=True, exist_ok=True)
    said = ""
    try:
        said = str(getattr(importlib.import_module(module), name)(bench))
    except Exception as error:  # noqa: BLE001 - whatever it is, it is this check's failure
        bench.wrong.append(f"{type(error).__name__}: {error}")
        (folder / "traceback").write_text(traceback.format_exc())
    found = {
        "detail": "; ".join([*bench.wrong, *bench.seen, *filter(None, [said])]),
        "failed": bool(bench.wrong),
        "log": bench.log[-4000:] if bench.wrong else "",
    }
    partial = folder / f"{RESULT}.partial"
    partial.write_text(json.dumps(found))
    partial.rename(folder / RESULT)


if __name__ == "__main__":
    # What ends this process by a signal ends the server with it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with contextlib.suppress(PermissionError):  # it is a group of its own already
        os.setpgid(0, 0)
    main(sys.argv[1], pathlib.Path(sys.argv[2]), Gpu(**json.loads(sys.argv[3])))
