"""Every metric family with its help text and type, in one table, in the order of the page.

`nv_*` families have Triton's names and help texts (rows 8.14 to 8.28). `naiad_*` families are additions, named as Prometheus recommends:
counters end in `_total`, and units are seconds.
"""

import typing

import msgspec

Type = typing.Literal["counter", "gauge", "histogram", "summary"]


class Family(msgspec.Struct, frozen=True):
    """A metric family."""

    name: str
    help: str
    type: Type


REQUEST_SUCCESS = Family(
    "nv_inference_request_success", "Number of successful inference requests, all batch sizes", "counter"
)  # fmt: skip
REQUEST_FAILURE = Family(
    "nv_inference_request_failure", "Number of failed inference requests, all batch sizes", "counter"
)  # fmt: skip
INFERENCE_COUNT = Family(
    "nv_inference_count", "Number of inferences performed (does not include cached requests)", "counter"
)  # fmt: skip
EXEC_COUNT = Family(
    "nv_inference_exec_count", "Number of model executions performed (does not include cached requests)", "counter"
)  # fmt: skip
REQUEST_DURATION = Family(
    "nv_inference_request_duration_us",
    "Cumulative inference request duration in microseconds (includes cached requests)",
    "counter",
)
QUEUE_DURATION = Family(
    "nv_inference_queue_duration_us",
    "Cumulative inference queuing duration in microseconds (includes cached requests)",
    "counter",
)
COMPUTE_INPUT_DURATION = Family(
    "nv_inference_compute_input_duration_us",
    "Cumulative compute input duration in microseconds (does not include cached requests)",
    "counter",
)
COMPUTE_INFER_DURATION = Family(
    "nv_inference_compute_infer_duration_us",
    "Cumulative compute inference duration in microseconds (does not include cached requests)",
    "counter",
)
COMPUTE_OUTPUT_DURATION = Family(
    "nv_inference_compute_output_duration_us",
    "Cumulative inference compute output duration in microseconds (does not include cached requests)",
    "counter",
)
FIRST_RESPONSE = Family(
    "nv_inference_first_response_histogram_ms",
    "Duration from request to first response in milliseconds",
    "histogram",
)
REQUEST_SUMMARY = Family(
    "nv_inference_request_summary_us",
    "Summary of inference request duration in microseconds (includes cached requests)",
    "summary",
)
QUEUE_SUMMARY = Family(
    "nv_inference_queue_summary_us",
    "Summary of inference queuing duration in microseconds (includes cached requests)",
    "summary",
)
COMPUTE_INPUT_SUMMARY = Family(
    "nv_inference_compute_input_summary_us",
    "Cumulative compute input duration in microseconds (does not include cached requests)",
    "summary",
)
COMPUTE_INFER_SUMMARY = Family(
    "nv_inference_compute_infer_summary_us",
    "Cumulative compute inference duration in microseconds (does not include cached requests)",
    "summary",
)
COMPUTE_OUTPUT_SUMMARY = Family(
    "nv_inference_compute_output_summary_us",
    "Cumulative inference compute output duration in microseconds (does not include cached requests)",
    "summary",
)
CACHE_HIT_SUMMARY = Family(
    "nv_cache_hit_summary_per_model",
    "Summary of cache hit counts/durations per model, in microseconds.",
    "summary",
)
CACHE_MISS_SUMMARY = Family(
    "nv_cache_miss_summary_per_model",
    "Summary of cache miss counts/durations per model, in microseconds.",
    "summary",
)
PENDING = Family(
    "nv_inference_pending_request_count",
    "Instantaneous number of pending requests awaiting execution per-model.",
    "gauge",
)
CACHE_HITS = Family("nv_cache_num_hits_per_model", "Number of cache hits per model", "counter")
CACHE_HIT_DURATION = Family(
    "nv_cache_hit_duration_per_model",
    "Total cache hit duration per model, in microseconds",
    "counter",
)
CACHE_MISSES = Family(
    "nv_cache_num_misses_per_model", "Number of cache misses per model", "counter"
)
CACHE_MISS_DURATION = Family(
    "nv_cache_miss_duration_per_model",
    "Total cache miss (insert+lookup) duration per model, in microseconds",
    "counter",
)
MODEL_LOAD_DURATION = Family("nv_model_load_duration_secs", "Model load time in seconds", "gauge")
PINNED_TOTAL = Family(
    "nv_pinned_memory_pool_total_bytes", "Pinned memory pool total memory size, in bytes", "gauge"
)
PINNED_USED = Family(
    "nv_pinned_memory_pool_used_bytes", "Pinned memory pool used memory size, in bytes", "gauge"
)
GPU_UTILIZATION = Family("nv_gpu_utilization", "GPU utilization rate [0.0 - 1.0)", "gauge")
GPU_MEMORY_TOTAL = Family("nv_gpu_memory_total_bytes", "GPU total memory, in bytes", "gauge")
GPU_MEMORY_USED = Family("nv_gpu_memory_used_bytes", "GPU used memory, in bytes", "gauge")
GPU_POWER_USAGE = Family("nv_gpu_power_usage", "GPU power usage in watts", "gauge")
GPU_POWER_LIMIT = Family("nv_gpu_power_limit", "GPU power management limit in watts", "gauge")
GPU_ENERGY = Family(
    "nv_energy_consumption",
    "GPU energy consumption in joules since the Triton Server started",
    "counter",
)
SLICE_MEMORY_TOTAL = Family(
    "naiad_gpu_slice_memory_total_bytes", "Memory of a MIG slice in bytes", "gauge"
)
SLICE_MEMORY_USED = Family(
    "naiad_gpu_slice_memory_used_bytes", "Used memory of a MIG slice in bytes", "gauge"
)
SLICE_UTILIZATION = Family(
    "naiad_gpu_slice_utilization",
    "Busy multiprocessors of a MIG slice since the last measurement [0.0 - 1.0]; absent on GPUs before Hopper",
    "gauge",
)
CPU_UTILIZATION = Family("nv_cpu_utilization", "CPU utilization rate [0.0 - 1.0]", "gauge")
CPU_MEMORY_TOTAL = Family("nv_cpu_memory_total_bytes", "CPU total memory (RAM), in bytes", "gauge")
CPU_MEMORY_USED = Family("nv_cpu_memory_used_bytes", "CPU used memory (RAM), in bytes", "gauge")

REQUEST_TIME = Family(
    "naiad_request_duration_seconds",
    "Time from the arrival of a request to its last response in seconds",
    "histogram",
)
FIRST_RESPONSE_TIME = Family(
    "naiad_first_response_duration_seconds",
    "Time from the arrival of a request of a decoupled model to its first response in seconds",
    "histogram",
)
RESPONSE_INTERVAL = Family(
    "naiad_response_interval_seconds",
    "Time between two responses to the same request of a decoupled model in seconds",
    "histogram",
)
QUEUE_TIME = Family(
    "naiad_queue_duration_seconds",
    "Time that successful requests waited for an instance in seconds",
    "histogram",
)
COMPUTE_TIME = Family(
    "naiad_compute_duration_seconds", "Time that the backend took for a batch in seconds, inputs and outputs included", "histogram"
)  # fmt: skip
BATCH_SIZE = Family("naiad_batch_size", "Number of rows of each executed batch", "histogram")
PADDING_ROWS = Family(
    "naiad_batch_padding_rows_total",
    "Number of rows that were added to batches to fill them up to a size (naiad.fill_batches)",
    "counter",
)
BATCH_CLOSED = Family(
    "naiad_batch_closed_total",
    "Number of batches sent to an instance, by the reason why no more requests were added to them",
    "counter",
)
STRATEGY_FAILURES = Family(
    "naiad_batch_strategy_failures_total",
    "Number of exceptions of the model's batching strategy (batchstrategy.py)",
    "counter",
)
STRATEGY_SLOW = Family(
    "naiad_batch_strategy_slow_total",
    "How often the median CPU time of 100 calls of the model's batching strategy was above 1 ms",
    "counter",
)
MODEL_MEMORY = Family(
    "naiad_model_memory_bytes",
    "Memory that loading the model took in bytes, by type (CPU, GPU) and device id; estimated may include other work",
    "gauge",
)
EVICTIONS = Family(
    "naiad_model_evictions_total",
    "Number of models that were unloaded to make room for others (--model-memory-limit)",
    "counter",
)
WORKER_RESTARTS = Family(
    "naiad_worker_restarts_total", "Number of restarted worker processes, by the reason: died, timeout (naiad.execute_timeout), load", "counter"
)  # fmt: skip
QUEUE_REQUESTS = Family(
    "naiad_queue_requests",
    "Number of requests that wait for an instance, by priority level; level 0 of a model without levels",
    "gauge",
)
QUEUE_OLDEST = Family(
    "naiad_queue_oldest_wait_seconds",
    "How long the request waits that waits longest in seconds",
    "gauge",
)
QUEUE_ESTIMATE = Family(
    "naiad_queue_estimated_wait_seconds",
    "How long a request without a priority that comes now would wait in seconds; absent before the first batch",
    "gauge",
)
INSTANCES = Family("naiad_instances", "Number of instances that can run batches", "gauge")
INSTANCES_BUSY = Family("naiad_instances_busy", "Number of instances that execute a batch", "gauge")
STEP_CALLS = Family(
    "naiad_ensemble_step_calls_total",
    "Number of calls of a step of an ensemble that ended, by the step's number and model",
    "counter",
)
STEP_FAILURES = Family(
    "naiad_ensemble_step_failures_total", "Number of those that failed", "counter"
)
STEP_DURATION = Family(
    "naiad_ensemble_step_duration_seconds_total",
    "Time from the calls of a step to their last responses in seconds, waiting included",
    "counter",
)
SEQUENCES_OPEN = Family(
    "naiad_sequences_open", "Number of sequences that may get further requests", "gauge"
)
SEQUENCES_WAITING = Family(
    "naiad_sequences_waiting", "Number of sequences that wait for a slot", "gauge"
)
SEQUENCE_SLOTS = Family(
    "naiad_sequence_slots", "Number of slots for sequences of the instances that run", "gauge"
)
SEQUENCE_SLOTS_USED = Family(
    "naiad_sequence_slots_used", "Number of slots that a sequence has", "gauge"
)
SEQUENCES_ENDED = Family(
    "naiad_sequences_ended_total",
    "Sequences that ended before their last request, by reason (idle, timeout, cancelled, instance_lost, unload)",
    "counter",
)
NOT_SERVED = Family(
    "naiad_requests_not_served_total",
    "Number of inference requests for a model or version that is unknown (not_found) or not ready (not_ready)",
    "counter",
)
TRACES_LOST = Family(
    "naiad_traces_lost_total",
    "Number of traces that were not written to files, or of spans that the collector did not get",
    "counter",
)
LOOP_LAG = Family(
    "naiad_loop_lag_seconds", "Delay of a 20 ms timer on the event loop in seconds; requests wait as long", "histogram"
)  # fmt: skip

REPOSITORY_POLLS = Family(
    "naiad_repository_polls_total",
    "Number of polls of the model repository, by the result: success, failure (it could not be read)",
    "counter",
)

LATENCY_COUNTERS = frozenset(
    (
        REQUEST_DURATION, QUEUE_DURATION, COMPUTE_INPUT_DURATION, COMPUTE_INFER_DURATION, COMPUTE_OUTPUT_DURATION,
    )
)  # fmt: skip
"""The families that `--metrics-config counter_latencies=false` leaves out."""
