"""A batching strategy: the inputs of a batch have at most as many bytes together as the model's parameter MAX_BATCH_VOLUME_BYTES says.

Copy it into the model's folder, beside config.pbtxt, which needs `dynamic_batching { }` and that parameter.
"""

from typing import Any


class BatchStrategy:
    """The class that the server looks for."""

    def initialize(self, model: Any) -> None:
        """Read the limit, once when the model is loaded; what this raises fails the load."""
        self.most = int(model.parameters["MAX_BATCH_VOLUME_BYTES"])

    def begin_batch(self) -> list[int]:
        """Make what `include` gets as `batch`: the bytes so far."""
        return [0]

    def include(self, batch: list[int], request: Any) -> bool:
        """Whether a request joins the batch. The first one of a batch is in it, whatever this says."""
        size = batch[0] + request.byte_size
        if size > self.most:
            return False
        batch[0] = size
        return True
