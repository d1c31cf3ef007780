"""A FastAPI application of one's own that serves models under /triton: `uvicorn fastapi_service:app`, in this folder (docs/asgi.md)."""

import pathlib

import fastapi

from naiad.asgi import create_app, mount

MODELS = pathlib.Path(__file__).resolve().parent / "model_repository"

app = fastapi.FastAPI(title="A service with models")


@app.get("/hello")
def hello() -> dict[str, str]:
    """A route of its own, beside the models."""
    return {"hello": "ask /triton/v2/models/word_count"}


mount(
    app,
    "/triton",
    create_app(
        model_repository=MODELS,
        model_control_mode="explicit",
        load_model=["word_count", "typewriter"],
    ),
)
