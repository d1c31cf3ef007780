"""The max_batch_size that a config gets whose model takes batches and does not say how large (row 11.50). Pure."""

import collections.abc

from naiad.config.backend_type import CompletionError

DEFAULT_MAX_BATCH_SIZE = "default-max-batch-size"
"""The `--backend-config` setting of row 11.50."""

_DEFAULT = "4"


def default_max_batch_size(options: collections.abc.Mapping[str, str]) -> int:
    """The batch size of a model that can batch and does not say how far (row 11.50).

    Raises:
        CompletionError: the setting is not a number.
    """
    text = options.get(DEFAULT_MAX_BATCH_SIZE, _DEFAULT)
    try:
        return max(int(text), 0)
    except ValueError:
        raise CompletionError(
            f"--backend-config {DEFAULT_MAX_BATCH_SIZE}={text} is not a number",
            suggestion=f"write {DEFAULT_MAX_BATCH_SIZE}={_DEFAULT}, or leave it out",
        ) from None
