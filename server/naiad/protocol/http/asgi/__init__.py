"""HTTP as an ASGI application: what other servers than the native engine need, uvicorn and users' own applications."""
