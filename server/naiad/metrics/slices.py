"""Memory and utilisation of the MIG slices of GPUs, by NVML.

Slices share a card, so the `nv_gpu_*` families, which are of whole cards, do not say which model's slice is full or idle. NVML measures the memory of a
slice on every card that has slices; how busy its multiprocessors are it computes of two samples, on cards from Hopper on. It
measures neither power nor energy of a slice.
"""

import collections.abc
import functools
import logging
import typing
from typing import Any

import msgspec

from naiad.metrics import families
from naiad.metrics.exposition import Labels, Sample, Series

log = logging.getLogger("naiad.metrics")

Memory = collections.abc.Callable[[str], tuple[int, int]]

_Answer = typing.TypeVar("_Answer")
_PERCENT = 100


class Slice(msgspec.Struct, frozen=True, kw_only=True):
    """A MIG slice.

    Attributes:
        uuid: `MIG-…`, the label `gpu_uuid` of a model's metrics.
        name: as the driver writes it, with its profile: "NVIDIA H200 MIG 1g.18gb".
        card: the UUID of its GPU.
        handle, card_handle: NVML's.
    """

    uuid: str
    name: str
    card: str
    handle: Any
    card_handle: Any


class SliceMeter:
    """Measures slices; each call blocks, in one thread at a time.

    Args:
        nvml: the module pynvml, initialised.
        slices: those of this machine.
        memory: gives bytes in use and in all of a slice by its UUID; zeros if that is not known.
    """

    def __init__(self, nvml: Any, slices: tuple[Slice, ...], *, memory: Memory) -> None:
        self._nvml = nvml
        self._slices = slices
        self._memory = memory
        self._samples: dict[str, Any] = {}
        """The last sample of each slice: what happened since is in the next one."""
        self._without_samples = set[str]()

    def series(self) -> list[Series]:
        """The families of slices now; none on a machine without slices."""
        if not self._slices:
            return []
        total, used, busy = list[Sample](), list[Sample](), list[Sample]()
        for each in self._slices:
            labels: Labels = (("card", each.card), ("gpu_uuid", each.uuid), ("name", each.name))
            in_use, in_all = self._memory(each.uuid)
            if in_all:
                total.append(Sample(labels, in_all))
                used.append(Sample(labels, in_use))
            utilization = self._utilization(each)
            if utilization is not None:
                busy.append(Sample(labels, utilization))
        return [
            Series(families.SLICE_MEMORY_TOTAL, total),
            Series(families.SLICE_MEMORY_USED, used),
            Series(families.SLICE_UTILIZATION, busy),
        ]

    def close(self) -> None:
        """Free the samples."""
        while self._samples:
            self._free(self._samples.popitem()[1])

    def _utilization(self, of: Slice) -> float | None:
        """The fraction of time and multiprocessors that were busy since the last call; None the first time, or where NVML cannot say it."""
        if of.uuid in self._without_samples:
            return None
        sample = self._ask(of, functools.partial(self._sample, of))
        if sample is None:
            self._without_samples.add(of.uuid)
            return None
        before, self._samples[of.uuid] = self._samples.get(of.uuid), sample
        if before is None:
            return None
        try:
            return self._ask(of, functools.partial(self._busy, before, sample))
        finally:
            self._free(before)

    def _sample(self, of: Slice) -> Any:
        nvml = self._nvml
        sample = nvml.nvmlGpmSampleAlloc()
        try:
            nvml.nvmlGpmMigSampleGet(
                of.card_handle, nvml.nvmlDeviceGetGpuInstanceId(of.handle), sample
            )
        except nvml.NVMLError:
            self._free(sample)
            raise
        return sample

    def _busy(self, before: Any, after: Any) -> float | None:
        nvml = self._nvml
        asked = nvml.c_nvmlGpmMetricsGet_t()
        asked.version, asked.numMetrics = nvml.NVML_GPM_METRICS_GET_VERSION, 1
        asked.sample1, asked.sample2 = before, after
        asked.metrics[0].metricId = nvml.NVML_GPM_METRIC_SM_UTIL
        nvml.nvmlGpmMetricsGet(asked)
        metric = asked.metrics[0]
        return None if metric.nvmlReturn else metric.value / _PERCENT

    def _free(self, sample: Any) -> None:
        try:
            self._nvml.nvmlGpmSampleFree(sample)
        except self._nvml.NVMLError as error:
            log.debug("a sample of a MIG slice could not be freed: %s", error)

    def _ask(self, of: Slice, question: collections.abc.Callable[[], _Answer]) -> _Answer | None:
        """Ask NVML about a slice; None if it does not support that: an old driver, an old card."""
        try:
            return question()
        except self._nvml.NVMLError as error:
            log.debug("%s: %s", of.uuid, error)
            return None
