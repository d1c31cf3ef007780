"""The logger of a model: `naiad.models.<name>`. Runs in workers too, so it needs Python 3.8 only.

Python keeps every logger that `logging.getLogger` makes for ever, and a server may see ever new models. So these are not among them:
they are made when they are wanted, and pass what they get to the logger `naiad.models`.
"""

import functools
import logging

_KEPT = 256


class _ModelLogger(logging.Logger):
    """Takes levels from its parent logger each time: a cache of its own would miss changes."""

    def isEnabledFor(self, level: int) -> bool:  # type: ignore[explicit-override]  # noqa: N802 - the base class names it; no `override` in 3.8
        return logging.getLogger(MODELS).isEnabledFor(level)


MODELS = "naiad.models"
"""The logger above that of each model."""


@functools.lru_cache(maxsize=_KEPT)
def model_logger(model: str) -> logging.Logger:
    """The logger of a model, or of all models for an empty name."""
    above = logging.getLogger(MODELS)
    if not model:
        return above
    logger = _ModelLogger(MODELS + "." + model)
    logger.parent = above
    return logger
