from naiad.embed.async_server import AsyncServer as AsyncServer
from naiad.embed.function_model import Request as Request
from naiad.embed.functions import (
    FunctionModel as FunctionModel,
    Tensor as Tensor,
    model as model,
)
from naiad.embed.requests import RequestOptions as RequestOptions, Result as Result
from naiad.embed.server import Server as Server
from naiad.errors import ErrorCode as ErrorCode, InferenceError as InferenceError
from naiad.serve.embedded import StartError as StartError

__version__: str
__all__ = (
    "AsyncServer",
    "ErrorCode",
    "FunctionModel",
    "InferenceError",
    "Request",
    "RequestOptions",
    "Result",
    "Server",
    "StartError",
    "Tensor",
    "__version__",
    "model",
)
