"""A loaded model version: its validator, its scheduler and its statistics.

Made by the loader, owned by the repository, called by the engine. All of it belongs to the event loop.
"""

import asyncio
import collections.abc
import functools

from naiad.config.explainer import explainer_of
from naiad.config.input_device import input_device, server_reads_inputs
from naiad.config.model_config import ModelConfig, TensorSpec
from naiad.core.clock import Clock
from naiad.core.flow import Flow
from naiad.core.inference import Inference, OnResponse, RequestContext
from naiad.core.request import InferRequest, RequestedOutput
from naiad.core.response import failure
from naiad.core.tensor import Tensor
from naiad.engine.api import KnownReplies, ModelTraits, TensorMetadata
from naiad.engine.forms.classification import requested
from naiad.engine.forms.classified import ClassifiedResponses
from naiad.engine.forms.placed import PlacedResponses, placed
from naiad.engine.instances.factory import ModelInstances, nothing
from naiad.engine.instances.update import (
    Change,
    InstanceUpdate,
    change,
    passive,
    scheduled,
)
from naiad.engine.sequence_validation import validator_of
from naiad.errors import InferenceError
from naiad.hosts.host import HostedInstance, InProcess
from naiad.metrics.memory import MemoryUsage
from naiad.repository.plan import VersionPlan
from naiad.scheduling.instances.resources import Resources
from naiad.scheduling.occupancy import Occupancy
from naiad.scheduling.relays.calls import CallInProgress
from naiad.scheduling.scheduler import Scheduler, SubmitsTogether


class Model:
    """A loaded version.

    Args:
        instances: those of the scheduler, and what they share, released with the model.
        resources: where the instances are registered; the model removes them at its end.
        replies: those that are known before they are computed; None without a response cache.

    Attributes:
        namespace: of its repository; "" without namespaces (row 7.37).
    """

    namespace = ""

    def __init__(
        self,
        *,
        config: ModelConfig,
        version: int,
        scheduler: Scheduler,
        instances: ModelInstances,
        resources: Resources,
        clock: Clock,
        replies: KnownReplies | None = None,
    ) -> None:
        self.config = config
        self.replies = replies
        self.version = version
        self.statistics = scheduler.statistics
        self._scheduler = scheduler
        self._submit_together = (
            scheduler.submit_together if isinstance(scheduler, SubmitsTogether) else None
        )
        self._release = instances.release
        self.leaves_cycles = instances.leaves_cycles
        self._more = instances.more
        self._instances = list(instances.hosted)
        self._resources = resources
        self._closing = set[asyncio.Future[None]]()
        self._clock = clock
        self.on_resize: collections.abc.Callable[[list[HostedInstance]], None] = _ignore
        """Called with its instances when some were added or removed."""
        self._validator = validator_of(config)
        self._plain_outputs: list[RequestedOutput] | None = None
        self.inputs = _metadata(config.inputs, batched=config.max_batch_size > 0)
        self.outputs = _metadata(config.outputs, batched=config.max_batch_size > 0)
        self.traits = traits_of(config, self._instances)

    def infer(
        self,
        request: InferRequest,
        on_response: OnResponse,
        flow: Flow | None = None,
        context: RequestContext | None = None,
    ) -> Inference | None:
        """Validate a request and give it to the scheduler; see `engine.api.Engine.infer` for the contract."""
        received_ns = self._clock.monotonic_ns()
        validator = self._validator
        try:
            batch_size = validator.validate(request)
        except InferenceError as error:
            # Not counted as a failed inference: the reference validates before its statistics begin (Run comes after Prepare).
            on_response(failure(request, error, version=self.version))
            return None
        wanted = request.requested_outputs
        if wanted and wanted is not self._plain_outputs:
            on_response = self._formed(request, on_response)
        if validator.has_reshape:
            request = validator.reshaped(request)
        inference = Inference(request, on_response, batch_size, received_ns, flow=flow)
        if context is not None:
            context.runs(self, inference)
        try:
            self._scheduler.submit(inference)
        except InferenceError as error:
            self._refused(inference, error)
            return None
        return inference

    def _refused(self, inference: Inference, error: InferenceError) -> None:
        """Every refusal counts: a full queue, no running instance, a model that is being stopped (row 8.16)."""
        inference.completed = True
        inference.answered_ns = self._clock.monotonic_ns()
        self.statistics.record_failure(
            reason=error.reason,
            request_ns=inference.answered_ns - inference.received_ns,
        )
        inference.on_response(failure(inference.request, error, version=self.version))

    def run_calls(self, calls: collections.abc.Sequence[CallInProgress]) -> None:
        """See `engine.api.ServedModel`: what `infer` does, for the calls of one batch of an ensemble at once."""
        submit = self._submit_together
        if submit is None or self._validator.has_reshape:
            for call in calls:
                call.begin(self)
            return
        received_ns = self._clock.monotonic_ns()
        validate = self._validator.validate
        inferences: list[Inference] = []
        # The requests of a batch are alike: one whose only input looks like that of the one before has its batch size.
        by_shape = not self._validator.has_shape_tensors
        batch_size = 0
        before: Tensor | None = None
        before_wanted: list[RequestedOutput] | None = None
        for call in calls:
            request = call.request
            wanted = request.requested_outputs
            if (
                call.together is None
                or call.cancelled
                or (wanted and wanted is not self._plain_outputs)
            ):
                call.begin(self)
                continue
            tensor = request.inputs[0] if len(request.inputs) == 1 else None
            if (
                tensor is None
                or before is None
                or type(tensor) is not Tensor
                or tensor.fault is not None
                or tensor.shape != before.shape
                or tensor.name != before.name
                or tensor.datatype is not before.datatype
                or wanted is not before_wanted
            ):
                try:
                    batch_size = validate(request)
                except InferenceError as error:
                    call.respond(failure(request, error, version=self.version))
                    continue
                before = tensor if by_shape and type(tensor) is Tensor else None
                before_wanted = wanted
            call.model = self
            inference = Inference(
                request, call, batch_size, received_ns, flow=call.flow, called=True
            )
            call.inference = call.handle = inference
            inferences.append(inference)
        for inference, refusal in submit(inferences):
            self._refused(inference, refusal)

    def _formed(self, request: InferRequest, on_response: OnResponse) -> OnResponse:
        """`on_response` behind what gives outputs the forms that a request asks for.

        Steps of ensembles ask with one list over and over: one that asks for none is not searched again.
        """
        classes, places = requested(request), placed(request)
        if places:
            on_response = PlacedResponses(on_response, places)
        if classes:
            batched = self.config.max_batch_size > 0
            return ClassifiedResponses(on_response, classes, self.config.labels, batched=batched)
        if not places:
            self._plain_outputs = request.requested_outputs
        return on_response

    @property
    def memory(self) -> tuple[MemoryUsage, ...]:
        """What loading it took."""
        return self.statistics.memory

    def inflight(self) -> int:
        """Inferences queued or running."""
        return self._scheduler.inflight()

    def occupancy(self) -> Occupancy:
        """What it executes."""
        return self._scheduler.occupancy()

    def ready_now(self) -> bool | None:
        """The result of `ready` if it is known without a call to an instance; None: call `ready`."""
        return self._scheduler.ready_now()

    async def ready(self) -> bool:
        """Whether it could execute an inference now (rows 2.7, 2.12)."""
        return await self._scheduler.ready()

    async def prepare(self, plan: VersionPlan) -> InstanceUpdate:
        """Make the instances that another config adds, which differs in nothing but `instance_group` and `version_policy` (row 7.24).

        Raises:
            InferenceError: one of them cannot be made; nothing changes.
        """
        changed = change([instance.spec for instance in self._instances], plan.config)
        self._resources.register(changed.added)
        try:
            added = await self._more(plan, changed.added)
        except BaseException:
            self._resources.unregister(changed.added)
            raise
        commit = functools.partial(self._commit, plan.config, changed, added)
        return InstanceUpdate(added, commit, resources=self._resources)

    def _commit(
        self, config: ModelConfig, changed: Change, added: collections.abc.Sequence[HostedInstance]
    ) -> str:
        left = list(changed.removed)
        removed: list[HostedInstance] = []
        for instance in tuple(self._instances):
            if instance.spec in left:
                left.remove(instance.spec)
                removed.append(instance)
                self._instances.remove(instance)
        self._instances += added
        self.config = config
        self.traits = traits_of(config, self._instances)
        self._scheduler.resize(scheduled(added), scheduled(removed))
        for _, host in passive(removed):
            closing = asyncio.ensure_future(host.close())
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)
        self._resources.unregister(changed.removed)
        self.on_resize(list(self._instances))
        return changed.in_words()

    async def stop(self) -> None:
        """Finish the requests in flight, close the instances, release memory. Idempotent."""
        await self._scheduler.stop()
        await asyncio.gather(
            *(host.close() for _, host in passive(self._instances)), *self._closing
        )
        self._resources.unregister([instance.spec for instance in self._instances])
        self._instances.clear()
        release, self._release = self._release, nothing
        await release()


def _ignore(_: list[HostedInstance]) -> None:
    """What is called if nothing depends on the instances."""


def traits_of(
    config: ModelConfig, instances: collections.abc.Sequence[HostedInstance] = ()
) -> ModelTraits:
    """What decoders need to know of a model, and of its instances once it has some."""
    return ModelTraits(
        decoupled=config.decoupled,
        max_batch_size=config.max_batch_size,
        inputs=_metadata(config.inputs, batched=False),
        input_device=input_device(config),
        outputs_may_stay=not config.response_cache and config.ensemble is None,
        reads_regions=bool(instances)
        and all(isinstance(each.host, InProcess) for each in instances)
        and not server_reads_inputs(config),
        explainer=explainer_of(config),
    )


def _metadata(
    specs: collections.abc.Sequence[TensorSpec], *, batched: bool
) -> tuple[TensorMetadata, ...]:
    return tuple(
        TensorMetadata(
            name=spec.name,
            datatype=spec.datatype,
            shape=(-1, *spec.dims) if batched and not spec.is_shape_tensor else spec.dims,
        )
        for spec in specs
    )
