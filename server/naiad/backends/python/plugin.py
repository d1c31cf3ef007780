"""The backend `python`, declared: what configs and options know of it. Imports no numpy."""

import types

from naiad.backends.plugin import BackendPlugin, deferred
from naiad.config.backend_type import Form, ModelFormat
from naiad.config.option_values import days

_NO_REGION = "tensors reach Python models through anonymous memory, which has no size to set"
_NO_STUB = (
    "there is no stub: a worker process may load for as long as it needs, or as naiad.load_timeout says, and one that hangs later is found "
    "by naiad.execute_timeout"
)

PLUGIN = BackendPlugin(
    name="python",
    make=deferred("naiad.backends.python.backend:make"),
    default_host="process",
    formats=(ModelFormat(filename="model.py", form=Form.EITHER),),
    options=types.MappingProxyType({"environment-keep-days": days()}),
    # Triton's `--backend-config=python,…` (row 15.32).
    options_without_effect=types.MappingProxyType(
        {
            "shm-default-byte-size": _NO_REGION,
            "shm-growth-byte-size": _NO_REGION,
            "shm-region-prefix-name": _NO_REGION,
            "stub-timeout-seconds": _NO_STUB,
            "thread-pool-size": "calls of models need no threads",
        }
    ),
    missing_file="Python model file not found in '{path}'",
    preflight=deferred("naiad.backends.python.preflight:preflight"),
)
