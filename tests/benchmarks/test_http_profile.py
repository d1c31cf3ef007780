"""The profile of HTTP by kind and size on the smallest requests."""

from benchmarks.micro import http_profile, idle_memory


def test_every_kind_has_its_steps() -> None:
    profiles = http_profile.measure(seconds=0.01, largest=1 << 10)
    assert [profile.kind for profile in profiles] == ["JSON", "binary", "BYTES, JSON", "BYTES, binary"]  # fmt: skip
    for profile in profiles:
        assert profile.steps["decode"] > 0
        assert profile.steps["encode"] > 0
        assert sum(profile.steps.values()) > 0
    lines = http_profile.table(profiles).splitlines()
    assert lines[2].startswith("| JSON, 1 KB | ")
    assert {line.count("|") for line in lines} == {10}


def test_idle_clients_are_a_table() -> None:
    rows = [idle_memory.Idle("HTTP connection", "native", 5_000, 3.14)]
    assert idle_memory.table(rows).splitlines()[-1] == "| HTTP connection | native | 5,000 | **3.1** |"  # fmt: skip
