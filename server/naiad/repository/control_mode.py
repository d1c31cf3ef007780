"""The model control modes, and what each of them allows (rows 7.13, 7.29 to 7.31). Pure; nothing else decides that."""

import collections.abc
import enum

from naiad.errors import unavailable

EVERY_MODEL = "*"
"""The value of `--load-model` that means all models (row 7.31)."""


class ControlMode(enum.Enum):
    """What decides which models are loaded (`--model-control-mode`)."""

    NONE = "none"
    """All models of the repository, once, at the start."""

    POLL = "poll"
    """All models of the repository, now and after each change of it."""

    EXPLICIT = "explicit"
    """The models of `--load-model` at the start, then load and unload requests of clients and models."""

    @property
    def polls(self) -> bool:
        """Whether changes of the repository are applied by themselves."""
        return self is ControlMode.POLL

    @property
    def allows_requests(self) -> bool:
        """Whether clients and models may load and unload models."""
        return self is ControlMode.EXPLICIT

    @property
    def lists_unloaded(self) -> bool:
        """Whether the index lists models of the repository that were never loaded, because a request or a poll may load them (row 7.2)."""
        return self.allows_requests or self.polls

    @property
    def allows_load_model(self) -> bool:
        """Whether `--load-model` selects the models to load at start; the other modes load all of them."""
        return self is ControlMode.EXPLICIT

    def models_at_start(self, selected: collections.abc.Collection[str]) -> frozenset[str] | None:
        """The models to load at start.

        Args:
            selected: the values of `--load-model`.

        Returns:
            Their names; None for all models of the repository.
        """
        if not self.allows_load_model or EVERY_MODEL in selected:
            return None
        return frozenset(selected)

    def check_request(self, name: str) -> None:
        """Check that a request may load or unload a model.

        Args:
            name: the model.

        Raises:
            InferenceError: UNAVAILABLE in a mode that does not allow it (row 7.13).
        """
        if not self.allows_requests:
            raise unavailable(
                "explicit model load / unload is not allowed if polling is enabled, nor with --model-control-mode=none; this server "
                f"runs with --model-control-mode={self.value}: to load or unload '{name}', start it with --model-control-mode=explicit"
            )
