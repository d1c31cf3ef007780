"""An adapter of a request."""

import dataclasses


@dataclasses.dataclass
class LoRARequest:
    """By name, number and folder."""

    lora_name: str
    lora_int_id: int
    lora_path: str
