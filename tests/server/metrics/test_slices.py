"""What is shown of MIG slices: memory, and on cards that sample it how busy they were since the last measurement."""

import types
import typing

from naiad.metrics.slices import Slice, SliceMeter


class NVMLError(Exception):
    pass


class Nvml:
    """Stands for pynvml: counters of busy multiprocessors in percent, by the id of a slice's GPU instance."""

    NVMLError = NVMLError
    NVML_GPM_METRICS_GET_VERSION = 1
    NVML_GPM_METRIC_SM_UTIL = 2

    def __init__(self, busy: dict[int, float] | None) -> None:
        self.busy = busy
        self.taken = self.freed = 0

    def nvmlGpmSampleAlloc(self) -> types.SimpleNamespace:  # noqa: N802 - the names are NVML's
        self.taken += 1
        return types.SimpleNamespace(instance=None)

    def nvmlGpmSampleFree(self, sample: object) -> None:  # noqa: N802
        self.freed += 1

    def nvmlDeviceGetGpuInstanceId(self, handle: int) -> int:  # noqa: N802
        return handle

    def nvmlGpmMigSampleGet(self, card: str, instance: int, sample: typing.Any) -> None:  # noqa: N802
        assert card == "card"
        if self.busy is None:
            raise NVMLError("not supported")
        sample.instance = instance

    def c_nvmlGpmMetricsGet_t(self) -> types.SimpleNamespace:  # noqa: N802
        metric = types.SimpleNamespace(metricId=0, nvmlReturn=0, value=0.0)
        return types.SimpleNamespace(metrics=[metric])

    def nvmlGpmMetricsGet(self, asked: typing.Any) -> None:  # noqa: N802
        assert self.busy is not None
        assert asked.sample1.instance == asked.sample2.instance
        assert (asked.version, asked.numMetrics, asked.metrics[0].metricId) == (1, 1, 2)
        asked.metrics[0].value = self.busy[asked.sample1.instance]


SLICES = tuple(
    Slice(uuid=f"MIG-{n}", name="H200 MIG 1g.18gb", card="GPU-0", handle=n, card_handle="card")
    for n in (1, 2)
)
MEMORY = {"MIG-1": (3, 10), "MIG-2": (0, 0)}


def shown(meter: SliceMeter) -> dict[str, dict[str, float]]:
    """By family, the value of each slice."""
    return {
        series.family.name.removeprefix("naiad_gpu_slice_"): {
            dict(sample.labels)["gpu_uuid"]: sample.value for sample in series.samples
        }
        for series in meter.series()
    }


def test_memory_and_utilisation_of_each_slice() -> None:
    nvml = Nvml({1: 25.0, 2: 100.0})
    meter = SliceMeter(nvml, SLICES, memory=MEMORY.__getitem__)
    first = shown(meter)
    assert first["memory_used_bytes"] == {
        "MIG-1": 3
    }  # what NVML does not know of the other is left out
    assert first["memory_total_bytes"] == {"MIG-1": 10}
    assert first["utilization"] == {}  # there is nothing before it
    assert shown(meter)["utilization"] == {"MIG-1": 0.25, "MIG-2": 1.0}
    assert shown(meter)["utilization"] == {"MIG-1": 0.25, "MIG-2": 1.0}
    meter.close()
    assert (nvml.taken, nvml.freed) == (6, 6)


def test_a_card_that_takes_no_samples_is_asked_once() -> None:
    nvml = Nvml(None)
    meter = SliceMeter(nvml, SLICES, memory=MEMORY.__getitem__)
    for _ in range(3):
        assert shown(meter)["utilization"] == {}
    assert (nvml.taken, nvml.freed) == (2, 2)


def test_labels_say_the_card_and_the_profile() -> None:
    meter = SliceMeter(Nvml(None), SLICES, memory=MEMORY.__getitem__)
    [sample] = next(iter(meter.series())).samples
    assert sample.labels == (("card", "GPU-0"), ("gpu_uuid", "MIG-1"), ("name", "H200 MIG 1g.18gb"))


def test_a_machine_without_slices_has_no_such_families() -> None:
    assert SliceMeter(Nvml({}), (), memory=MEMORY.__getitem__).series() == []
