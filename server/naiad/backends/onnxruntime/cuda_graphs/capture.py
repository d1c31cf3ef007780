"""Makes the session that captures a model's CUDA graphs, or says in the log why there are none: the model is served without them then, as one on TensorRT."""

import logging
import pathlib
import typing

from naiad.backends.backend import ModelSource
from naiad.backends.cuda_graph_shapes import PlannedGraphs, graphs_of
from naiad.backends.filled_sizes import fill_of
from naiad.backends.onnxruntime.cuda_graphs.planning import impossible, wants_graphs, with_graphs
from naiad.backends.onnxruntime.cuda_graphs.runner import GraphRunner
from naiad.backends.onnxruntime.graph_check import check_session
from naiad.backends.onnxruntime.plan import SessionPlan
from naiad.backends.onnxruntime.session import (
    GlobalThreadPool,
    make_session,
    run_options,
    signature_of,
)
from naiad.errors import InferenceError

log = logging.getLogger("naiad.backends")


class Captured(typing.NamedTuple):
    """What runs a model in its graphs, and which ones were planned."""

    runner: GraphRunner
    planned: PlannedGraphs


def captured(
    source: ModelSource,
    plan: SessionPlan,
    path: pathlib.Path,
    *,
    pool: GlobalThreadPool,
    device_id: int,
    label: str,
    memory: str = "cuda",
) -> Captured | None:
    """The session of an instance with its graphs; None, and a line in the log, if it has none.

    Args:
        source: the model.
        plan: of a session without graphs.
        path: the model's file.
        pool: of threads.
        device_id: the GPU.
        label: the model and where it runs, for the log.
        memory: the device's memory, as onnxruntime names it.

    Raises:
        InferenceError: INVALID_ARG: a `graph_spec` that no batch could have, or a session that does not fit the config.
    """
    config = source.config
    planned = graphs_of(config, fill_of(config, source.options))
    why = impossible(config)
    if not wants_graphs(config, plan):
        why = f"only the accelerator cuda captures them, and the first one here is {plan.providers[0].name}"
    for fault in (why,) if why else planned.faults:
        log.warning("CUDA graph is not captured for %s: %s", label, fault)
    if why or not planned.shapes:
        return None
    capturing = with_graphs(plan)
    try:
        session = make_session(path, capturing, model=config.name, pool=pool)
    except InferenceError as error:
        # Such as nodes that CUDA does not run. Without graphs the load goes on, or fails with the reason that has nothing to do with them.
        log.error("unable to record CUDA graph for %s: %s", label, error)  # noqa: TRY400 - the message says all
        return None
    signature = signature_of(session, path)
    check_session(config, signature)
    runner = GraphRunner(
        session,
        run_options(capturing),
        config=config,
        signature=signature,
        graphs=planned.shapes,
        device=(memory, device_id),
        entries=plan.run_entries,
        label=label,
    )
    return Captured(runner, planned)
