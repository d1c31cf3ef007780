"""grpc.health.v1.Health, Check only (row 10.3).

Its two messages are one field each and are written here by hand: registering them with protobuf would collide with the
package grpcio-health-checking when a model or an embedding program imports it. `service` has no effect.
"""

from naiad.engine.api import Engine

CHECK = "/grpc.health.v1.Health/Check"
WATCH = "/grpc.health.v1.Health/Watch"

SERVING = b"\x08\x01"
"""HealthCheckResponse with status (field 1) SERVING (1)."""

NOT_SERVING = b"\x08\x02"


class HealthCheck:
    """Check follows ServerReady.

    Args:
        engine: knows whether it is ready.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def check(self, body: bytes) -> bytes:
        """SERVING or NOT_SERVING.

        Raises:
            InferenceError: UNAVAILABLE at the end of a drain.
        """
        return SERVING if await self._engine.server_ready() else NOT_SERVING
