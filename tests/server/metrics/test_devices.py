"""CPU and memory of the machine, from what /proc says, and GPUs where there is no driver."""

import pathlib
import subprocess
import sys

import pytest

from naiad.metrics.devices import ProcessorMeter

_MEMINFO = """\
MemTotal:        4000 kB
MemFree:          500 kB
MemAvailable:    3000 kB
Buffers:          100 kB
"""


def values(meter: ProcessorMeter) -> dict[str, float]:
    """The meter's series by name."""
    return {series.family.name: next(iter(series.samples)).value for series in meter.series()}


def write(proc: pathlib.Path, ticks: str) -> None:
    """As the kernel writes it: user, nice, system, idle, iowait, irq, softirq, steal, guest, guest_nice."""
    (proc / "stat").write_text(f"cpu  {ticks}\ncpu0 1 1 1 1 1 1 1 1 1 1\n")
    (proc / "meminfo").write_text(_MEMINFO)


def test_utilisation_is_the_time_not_idle_since_the_last_measurement(
    tmp_path: pathlib.Path,
) -> None:
    meter = ProcessorMeter(tmp_path)
    write(tmp_path, "100 0 0 100 0 0 0 0 50 0")
    assert values(meter)["nv_cpu_utilization"] == 0
    write(tmp_path, "110 5 5 170 10 1 1 1 60 0")  # 103 ticks, 80 of them idle or waiting
    assert values(meter)["nv_cpu_utilization"] == pytest.approx(23 / 103)


def test_no_new_ticks_mean_a_utilisation_of_zero(tmp_path: pathlib.Path) -> None:
    meter = ProcessorMeter(tmp_path)
    write(tmp_path, "100 0 0 100 0 0 0 0 0 0")
    values(meter)
    assert values(meter)["nv_cpu_utilization"] == 0


def test_used_memory_is_total_minus_available(tmp_path: pathlib.Path) -> None:
    write(tmp_path, "1 0 0 1 0 0 0 0 0 0")
    by_series = values(ProcessorMeter(tmp_path))
    assert by_series["nv_cpu_memory_total_bytes"] == 4000 * 1024
    assert by_series["nv_cpu_memory_used_bytes"] == 1000 * 1024


def test_this_machine_tells_fractions_and_bytes() -> None:
    meter = ProcessorMeter()
    values(meter)
    by_series = values(meter)
    assert 0 <= by_series["nv_cpu_utilization"] <= 1
    assert 0 < by_series["nv_cpu_memory_used_bytes"] < by_series["nv_cpu_memory_total_bytes"]


def test_without_a_driver_there_are_no_gpus_and_no_binding_is_imported() -> None:
    script = (
        "import sys\n"
        "from naiad.metrics import devices\n"
        "devices._DRIVER = 'no-such-driver.so'\n"
        "assert devices.GpuMonitor().open() == ()\n"
        "assert 'pynvml' not in sys.modules\n"
    )
    subprocess.run(
        [sys.executable, "-c", script], check=True, env={"PYTHONPATH": ":".join(sys.path)}
    )
