"""The server process: wiring, start, drain, stop. The only place that knows every part."""
