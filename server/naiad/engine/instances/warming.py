"""What is seen of a warmup: its iterations in the progress of the load and in the log."""

import collections.abc
import logging
import time

from naiad.hosts.warmup import Warmup, ignore
from naiad.repository.loading import progress
from naiad.repository.plan import VersionPlan

log = logging.getLogger("naiad.loader")

LOG_INTERVAL_S = 5.0
"""Between two lines of the log about one warmup."""


class Warming:
    """The warmup of the first instances of a version, in the progress of the load and in the log.

    Args:
        plan: the version.
        warmup: its samples.
        instances: how many instances run them.
    """

    def __init__(self, plan: VersionPlan, warmup: Warmup, instances: int) -> None:
        self._name = f"'{plan.config.name}' version {plan.version}"
        self._warmup = warmup
        self._total = warmup.iterations * instances
        self._begun = 0
        self._logged_s = 0.0
        self._show: collections.abc.Callable[[], None] = ignore

    def __enter__(self) -> None:
        if self._warmup:
            self._show = progress.warmup(self._total)
            self._warmup.advance = self._advance

    def __exit__(self, *failed: object) -> None:
        self._warmup.advance = ignore
        if self._warmup and failed[0] is None:
            log.info("%s is warm: %d runs of its warmup samples", self._name, self._total)

    def _advance(self) -> None:
        """An iteration begins; in any thread, one at a time."""
        self._begun += 1
        self._show()
        now = time.monotonic()
        if self._begun == 1 or now - self._logged_s >= LOG_INTERVAL_S:
            self._logged_s = now
            log.info("%s is warming %d/%d", self._name, self._begun, self._total)
