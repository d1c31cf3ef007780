"""What a scheduler is: three methods (roadmap 6/8 adds sequences and ensembles behind the same three)."""

import typing

from naiad.core.inference import Inference


class Scheduler(typing.Protocol):
    """Decides which inference runs next, with whom and where. All methods belong to the event loop."""

    def enqueue(self, inference: Inference) -> None:
        """Take an inference; its `on_response` will be called exactly once more with a final response.

        From here on the scheduler owns it, on every way out: success, error, timeout, cancel, death, stop.

        Raises:
            InferenceError: it is refused (queue full, stopping); then it was not taken and nothing is called.
        """
        ...

    def inflight(self) -> int:
        """How many inferences it owns: queued ones and those in a batch."""
        ...

    async def stop(self) -> None:
        """Refuse new inferences, finish every one it owns, then close its hosts. Idempotent."""
        ...
