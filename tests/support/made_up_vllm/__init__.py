"""A package `vllm` for tests: what the backend `vllm` uses of the real one, with an engine that makes words without a model.

Its folder stands on `PYTHONPATH` in place of an installed vllm. Names, signatures and what is raised are those of vllm 0.33
(vllm-project/vllm at 00080ee); `tests/server/backends/vllm/test_signatures.py` holds them against the real package where that is installed.
"""
