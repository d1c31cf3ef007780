"""What all requests of an ensemble share."""

import collections.abc

from naiad.config.model_config import ModelConfig
from naiad.core.inference import Inference
from naiad.core.record import Record
from naiad.scheduling.ensemble.plan import EnsemblePlan
from naiad.scheduling.ensemble.steps import StepCalls
from naiad.scheduling.relays.calls import TakesTogether
from naiad.scheduling.response_dispatcher import ResponseDispatcher


class RunContext(Record, frozen=True, gc=True):
    """What all requests of an ensemble share.

    Attributes:
        config: of the ensemble.
        version: of the ensemble.
        plan: its graph.
        calls: makes the calls.
        dispatcher: counts requests, and sends their responses.
        together: takes the responses of a batch; None if each call takes its own.
        on_end: called just before the final response.
    """

    config: ModelConfig
    version: int
    plan: EnsemblePlan
    calls: StepCalls
    dispatcher: ResponseDispatcher
    together: TakesTogether | None
    on_end: collections.abc.Callable[[Inference], None]
