"""What a worker process of a model of the backend `vllm` loads, as a model.py is loaded; alone in its folder, which is importable there."""

from naiad.backends.vllm.language_model import LanguageModel as TritonPythonModel

__all__ = ["TritonPythonModel"]
