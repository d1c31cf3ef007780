"""Requests of sequences in one line each, and tables and batchers for them."""

from naiad.config.model_config import DynamicBatching, TensorSpec
from naiad.core.inference import Inference, OnResponse
from naiad.core.request import LATEST, SEQUENCE_END, SEQUENCE_START, InferRequest
from naiad.core.tensor import Tensor
from naiad.scheduling.batching import batching_policy
from naiad.scheduling.sequence.direct import DirectBatcher
from naiad.scheduling.sequence.table import SequenceTable
from tests.support.inferences import MODEL, ignore, make_spec

MS = 1_000_000
S = 1_000 * MS


def request_of(
    key: int | str,
    flags: str = "",
    *tensors: Tensor,
    name: str = "",
    timeout_us: int = 0,
    now: int = 0,
    on_response: OnResponse = ignore,
) -> Inference:
    """A request of a sequence; flags "s" and "e" for START and END."""
    bits = SEQUENCE_START * ("s" in flags) | SEQUENCE_END * ("e" in flags)
    request = InferRequest(
        MODEL,
        LATEST,
        name or f"{key}{flags}",
        list(tensors),
        [],
        {},
        timeout_us=timeout_us,
        correlation_id=key,
        flags=bits,
    )
    return Inference(request, on_response, batch_size=1, received_ns=now, queued_ns=now)


def make_table(
    rows: int = 2, *, instances: int = 1, idle_ns: int = S, iterative: bool = False
) -> tuple[SequenceTable, list[DirectBatcher]]:
    """A table, and the batchers of its instances."""
    table = SequenceTable(model=MODEL, idle_ns=idle_ns, iterative=iterative)
    batchers = [make_direct(table, rows, number=number) for number in range(instances)]
    for batcher in batchers:
        table.add(batcher, 0)
    return table, batchers


def make_direct(
    table: SequenceTable,
    rows: int = 4,
    *,
    number: int = 0,
    delay_ns: int = 0,
    utilization: float = 0,
    inputs: tuple[TensorSpec, ...] = (make_spec(),),
) -> DirectBatcher:
    return DirectBatcher(
        number,
        rows=rows,
        table=table,
        policy=batching_policy(inputs, rows, DynamicBatching()),
        delay_ns=delay_ns,
        utilization=utilization,
    )


def names(inferences: list[Inference]) -> str:
    return " ".join(each.request.id for each in inferences)
