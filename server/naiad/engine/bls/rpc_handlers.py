"""Makes the handlers of the requests of worker processes; their module is imported with the first worker, which many servers never have."""

import collections.abc

from naiad.engine.bls.server_api import ServerApi
from naiad.hosts.host import WorkerRpcHandler


def rpc_handlers_of(api: ServerApi) -> collections.abc.Callable[[str, str], WorkerRpcHandler]:
    """What makes the handler of one instance's workers, by the names of the model and the instance."""

    def rpc_handler(model: str, instance: str) -> WorkerRpcHandler:
        from naiad.engine.bls.worker_rpc import ModelRpcHandler  # noqa: PLC0415 - see the module

        return ModelRpcHandler(api, model, instance)

    return rpc_handler
