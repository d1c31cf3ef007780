"""Naiad: an inference server that runs a Triton model repository, over HTTP and gRPC (KServe v2), and inside a program.

    import naiad

    with naiad.Server("models") as server:
        server.infer("add", {"INPUT0": array})["OUTPUT0"]

The names below are imported with their first use: `import naiad` imports nothing else, no numpy and no framework (docs/library.md). `__init__.pyi` has them for
type checkers.
Limits: those of `backends/instance.py`, whose worker processes import it.
"""

__version__ = "0.2.0"

_HOMES = {
    "AsyncServer": "naiad.embed.async_server",
    "ErrorCode": "naiad.errors",
    "InferenceError": "naiad.errors",
    "RequestOptions": "naiad.embed.requests",
    "Result": "naiad.embed.requests",
    "Request": "naiad.embed.function_model",
    "Server": "naiad.embed.server",
    "Tensor": "naiad.embed.functions",
    "model": "naiad.embed.functions",
    "FunctionModel": "naiad.embed.functions",
    "StartError": "naiad.serve.embedded",
}

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


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'naiad' has no attribute '{name}'")
    import importlib  # noqa: PLC0415 - most processes need none of these names

    value = globals()[name] = getattr(importlib.import_module(home), name)
    return value


def __dir__() -> "list[str]":
    return sorted({*globals(), *_HOMES})
