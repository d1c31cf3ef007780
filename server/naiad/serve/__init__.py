"""The server process: wiring, start, drain, stop. The only package that imports every other one."""
