"""Tracing of one server: its settings, which requests it traces, and the sink of complete traces. Loop only."""

import asyncio
import collections.abc
import functools
import itertools
import logging

from naiad.core.clock import Clock
from naiad.core.inference import TraceParent
from naiad.tracing.batch import Batches
from naiad.tracing.files import TraceFiles, TraceSink
from naiad.tracing.held import HeldTensors
from naiad.tracing.settings import (
    OPENTELEMETRY,
    Change,
    TraceOptions,
    TraceSetting,
    TraceSettings,
    shown,
)
from naiad.tracing.trace import RequestTrace
from naiad.tracing.usual import AddSent, SentTrace, complete_all

_log = logging.getLogger("naiad.trace")

_CLOSE_SECONDS = 3.0
"""For what waits for a file or a collector when the server stops."""


class Tracer:
    """Implements `trace.Samples`.

    Args:
        sink: makes what complete traces go to; None: files.

    Attributes:
        active: whether any request may be traced now.
        due: whether the next one may be, whose client has begun no trace.
        forces: whether one is whose client has begun a trace (row 9.19).
        possible: whether a change of the settings could make it so.
    """

    def __init__(
        self,
        options: TraceOptions,
        *,
        clock: Clock,
        sink: collections.abc.Callable[[], TraceSink] | None = None,
    ) -> None:
        self.options = options
        self._settings = TraceSettings(options)
        self.now_ns = clock.monotonic_ns
        self._ids = itertools.count(1)
        self.next_id: collections.abc.Callable[[], int] = self._ids.__next__
        self._make_sink = (
            functools.partial(TraceFiles, self._failed, options.file, self.next_id)
            if sink is None
            else sink
        )
        self._sink: TraceSink | None = None
        self.complete_sent: AddSent = complete_all
        self.gathered: list[SentTrace] | None = None
        self.batches = Batches()
        self.tensors = HeldTensors()
        self._has_failed = False
        self._lost = 0
        self.possible = bool(options.file) or options.mode == OPENTELEMETRY
        self.active = self.due = self.forces = False
        self.everything: TraceSetting | None = None

    def open(self) -> None:
        """Begin to trace; again after `aclose`, too."""
        self._sink = self._make_sink()
        self.complete_sent = self._sink.sent
        self._has_failed = False
        self._update_active()

    def sampled(self, model: str, parent: TraceParent | None) -> TraceSetting | None:
        """See `Samples`."""
        settings = self._settings
        setting = settings.models.get(model, settings.overall)
        if setting.always:
            return setting if self.active else None
        forced = parent is not None and setting.mode == OPENTELEMETRY and bool(setting.level)
        if not self.active:
            return None
        chosen = setting.samples(forced=forced)
        if setting.left:  # with a rate of 1, the next one is due at once
            self._update_due()
        return setting if chosen else None

    def passed(self, model: str) -> None:
        """A request for this model came while none was due: it counts. This is all that tracing costs most requests."""
        settings = self._settings
        setting = settings.models.get(model, settings.overall)
        left = setting.left
        if left > 1:
            setting.left = left - 1
        elif left == 1:
            setting.left = 0
            self.due = True

    def shown(self, model: str) -> dict[str, str | list[str]]:
        """The setting of a model, or of all of them for "", as clients see it."""
        return shown(self._settings.of(model), self.options)

    def change(self, model: str, change: Change) -> None:
        """Change a setting; tracing that has stopped because of a file begins again.

        Raises:
            InferenceError: see `TraceSettings.change`.
        """
        replaced = self._settings.change(model, change)
        self._has_failed = False
        self._update_active()
        self._replaced(replaced)

    def lost(self) -> int:
        """Traces that were not written, or spans that were not sent, since the server has started."""
        return self._lost + (0 if self._sink is None else self._sink.lost)

    async def aclose(self) -> None:
        """Write what was collected; no request is traced after that."""
        self.active = self.due = self.forces = False
        self.everything = None
        sink = self._sink
        if sink is None:
            return
        sink.stop()
        self._sink = None
        self.complete_sent = complete_all
        await asyncio.to_thread(sink.close, _CLOSE_SECONDS)
        self._lost += sink.lost

    def _replaced(self, settings: collections.abc.Iterable[TraceSetting]) -> None:
        for setting in settings:
            setting.replaced = True
            if self._sink is not None:
                self._sink.replaced(setting)

    def complete(self, trace: RequestTrace) -> None:
        """See `Samples`."""
        setting = trace.setting
        setting.open -= 1
        if self._sink is None:
            trace.free()
        else:
            self._sink.collected(trace)

    def _update_active(self) -> None:
        self.active = self._sink is not None and any(
            setting.level and (setting.fault() is None or setting.mode == OPENTELEMETRY)
            for setting in self._settings.all()
        )
        self.forces = self.active and self.options.mode == OPENTELEMETRY
        settings = self._settings
        every = self.active and settings.overall.always and not settings.models
        self.everything = settings.overall if every else None
        self._update_due()

    def _update_due(self) -> None:
        self.due = self.active and any(setting.left == 0 for setting in self._settings.all())

    def _failed(self, error: OSError, path: str) -> None:
        """A file cannot be written; on the writer's thread."""
        if self._has_failed:
            return
        self._has_failed, self.active, self.due, self.everything = True, False, False, None
        _log.error(
            "tracing stops: %s cannot be written: %s; requests go on. Make room or choose another --trace-config=triton,file=…, then "
            "send any change to /v2/trace/setting to begin again",
            path,
            error.strerror or error,
        )
