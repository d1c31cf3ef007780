import subprocess
import sys

_SCRIPT = """
import sys
from naiad.protocol.http.control_plane import ControlPlane
from naiad.protocol.http.routes import HttpOptions, Routes
heavy = {"fastapi", "starlette", "pydantic"} & set(sys.modules)
assert not heavy, heavy
"""


def test_a_server_that_only_infers_never_imports_the_framework() -> None:
    subprocess.run(
        [sys.executable, "-c", _SCRIPT], check=True, env={"PYTHONPATH": ":".join(sys.path)}
    )
