"""The engine's arguments: a few of the real class's fields."""

import dataclasses
from typing import Any


@dataclasses.dataclass
class EngineArgs:
    """What an engine is started with."""

    model: str = "Qwen/Qwen3-0.6B"
    tokenizer: str | None = None
    trust_remote_code: bool = False
    dtype: str = "auto"
    max_model_len: int | None = None
    tensor_parallel_size: int = 1
    pipeline_parallel_size: int = 1
    gpu_memory_utilization: float = 0.9
    max_num_seqs: int | None = None
    enforce_eager: bool = False
    enable_lora: bool = False
    max_loras: int = 1
    max_lora_rank: int = 16
    disable_log_stats: bool = False

    def create_engine_config(self, usage_context: Any = None) -> "EngineArgs":
        """A model that cannot be found fails here in the real one, too."""
        if self.model.startswith("missing/"):
            raise OSError(f"{self.model} is not a local folder and is not a valid model identifier")
        return self


@dataclasses.dataclass
class AsyncEngineArgs(EngineArgs):
    """The same for an asynchronous engine."""

    enable_log_requests: bool = False
