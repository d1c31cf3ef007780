from naiad.embed.async_server import AsyncServer as AsyncServer
from naiad.embed.requests import RequestOptions as RequestOptions, Result as Result
from naiad.embed.server import Server as Server
from naiad.errors import ErrorCode as ErrorCode, InferenceError as InferenceError
from naiad.serve.embedded import StartError as StartError

__version__: str
__all__ = (
    "AsyncServer",
    "ErrorCode",
    "InferenceError",
    "RequestOptions",
    "Result",
    "Server",
    "StartError",
    "__version__",
)
