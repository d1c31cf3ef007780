"""The context of a request while tracing is on: decides whether it is traced, and is its trace as long as that is usual. Loop only.

A usual trace has one inference with one response, and is to have nothing but its times. Those are in the request's context and in its inference
anyway, so nothing is recorded before the response is sent. What turns out otherwise becomes a `RequestTrace` with what is known of it then.
"""

import typing

from typing_extensions import override

from naiad.core.inference import Inference, RecordsInference, RequestContext
from naiad.tracing.settings import OPENTELEMETRY, TraceSetting
from naiad.tracing.trace import InferenceTrace, RequestTrace, Samples, span_ids


class TracedContext(RequestContext, kw_only=True, eq=False):
    """The context of a request while tracing is on; of one that is traced, also the `core.inference.TracedInference` of its inference.

    Attributes:
        protocol: HTTP or GRPC.
        setting: by which it is traced, if it asks a model; None if it is not.
        read_ns: when it was whole (monotonic).
        whole: its trace, if that is not usual.
        context: see `TracedInference`: usual traces have no spans. A field is read in a tenth of the time of a constant of the class.
    """

    tracer: Samples
    protocol: str
    setting: TraceSetting | None = None
    read_ns: int = 0
    whole: RequestTrace | None = None
    context: str = ""

    @override
    def asks(self, model: str) -> None:
        self.asked = True
        tracer = self.tracer
        setting = self.setting
        if setting is None:
            setting = self.setting = tracer.everything or tracer.sampled(model, self.trace)
        if setting is None:
            return
        if not self.read_ns:
            self.read_ns = tracer.now_ns()
        if not setting.usual:
            self._made_whole(setting)

    @override
    def runs(self, model: typing.Any, inference: Inference) -> None:
        if (
            (self.lean or (self.setting is not None and self.whole is None))
            and self.inference is None
            # An ensemble computes nothing itself, and a stream has several responses.
            and inference.flow is None
            and model.config.ensemble is None
        ):
            self.model, self.inference = model, inference
            inference.traced = self
            return
        setting, whole = self.setting, self.whole
        if setting is not None and whole is None:
            whole = self._made_whole(setting)
        self.model, self.inference = model, inference
        if whole is None:
            return
        part = InferenceTrace(whole, whole.id)
        part.begins(model, inference)
        inference.traced = part
        part.between(inference)

    @override
    def finish(self) -> None:
        gathered = self.tracer.gathered
        if gathered is not None:
            gathered.append(self)
        elif self.setting is not None:
            self.tracer.complete_sent((self,))

    def answers_begin(self) -> None:
        """See `TracedInference`. To complete the traces of a batch one after another takes half the time that it takes between the responses."""
        if self.tracer.gathered is None:  # else it is inside the responses of another batch
            self.tracer.gathered = []

    def answers_end(self) -> None:
        """See `TracedInference`."""
        gathered, self.tracer.gathered = self.tracer.gathered, None
        if gathered:
            self.tracer.complete_sent(gathered)

    def complete(self) -> None:
        """See `SentTrace`."""
        setting, whole = self.setting, self.whole
        if setting is None or not self.asked:
            return
        if whole is None:
            whole = self._made_whole(setting)
        whole.send_ns, whole.sent_ns = self.send_ns, self.sent_ns
        whole.end()

    def _made_whole(self, setting: TraceSetting) -> RequestTrace:
        """The trace, from now on with all that happens."""
        setting.open += 1
        whole = self.whole = self._record(setting)
        inference = self.inference
        if inference is None:
            return whole
        part = InferenceTrace(whole, whole.id)
        part.begins(self.model, inference)
        inference.traced = part
        if inference.completed:
            times = inference.execution
            answered_ns = inference.answered_ns or (0 if times is None else times.responded_ns)
            part.answered(inference, answered_ns=answered_ns, now=self.tracer.now_ns())
        else:
            part.between(inference)
        return whole

    def _record(self, setting: TraceSetting, *, completed: bool = False) -> RequestTrace:
        parent = self.trace
        spans = span_ids(parent) if setting.mode == OPENTELEMETRY else None
        return RequestTrace(
            self.tracer.next_id(), setting, self.protocol, parent, self.received_ns, self.read_ns, self.tracer, completed=completed, spans=spans,
        )  # fmt: skip

    def child(self) -> RecordsInference:
        """See `TracedInference`."""
        assert self.setting is not None, "its inference is traced"
        assert self.inference is not None, "its inference is traced"
        traced = self.inference.traced
        if traced is None:  # its trace was usual, and is complete
            return InferenceTrace(self._record(self.setting, completed=True), 0)
        if self.whole is None:
            self._made_whole(self.setting)
        traced = self.inference.traced
        assert traced is not None, "its inference is traced"
        return traced.child()
