"""Loads that wait for memory: which models go, and that every wait ends."""

import asyncio
import gc
import logging
import pathlib
import threading

import msgspec
import pytest

from naiad.engine.memory import pool
from naiad.errors import ErrorCode, InferenceError
from tests.server.engine.memory.pool_world import World


async def test_the_least_recently_used_model_goes_before_a_load_that_would_not_fit(
    tmp_path: pathlib.Path,
) -> None:
    world = World(tmp_path, limit=250)
    world.write(a=100, b=100, c=100)
    for name in ("a", "b"):
        await world.repository.load(name)
    world.used("a")
    # 200 are in use, and 100 bytes of files are expected to take 120.
    await world.repository.load("c")
    assert world.states() == {"a": "READY", "b": "evicted", "c": "READY"}


async def test_of_models_without_requests_the_one_that_was_loaded_first_goes(
    tmp_path: pathlib.Path,
) -> None:
    world = World(tmp_path, limit=250)
    world.write(z=100, a=100, c=100)
    for name in ("z", "a", "c"):
        await world.repository.load(name)
    assert world.states() == {"z": "evicted", "a": "READY", "c": "READY"}


async def test_a_load_that_fits_unloads_nothing(tmp_path: pathlib.Path) -> None:
    world = World(tmp_path, limit=220)
    world.write(a=100, b=100)
    for name in ("a", "b"):
        await world.repository.load(name)
    assert world.states() == {"a": "READY", "b": "READY"}


async def test_what_the_last_load_took_counts_the_next_time(tmp_path: pathlib.Path) -> None:
    world = World(tmp_path, limit=300)
    world.write(a=10, b=100)
    world.sizes["a"] = 250
    await world.repository.load("a")
    await world.repository.load("b")
    assert world.states() == {"a": "evicted", "b": "READY"}
    await world.repository.load("a")
    assert world.when_begun["a"] == {"a": "LOADING", "b": "evicted"}
    assert world.states() == {"a": "READY", "b": "evicted"}


async def test_a_size_that_is_known_better_since_the_load_counts_the_next_time(
    tmp_path: pathlib.Path,
) -> None:
    world = World(tmp_path, limit=300)
    world.write(a=100, b=100, c=100)
    for name in ("a", "b"):
        await world.repository.load(name)
    world.used("b")
    better = msgspec.structs.replace(world.made["a"].memory[0], byte_size=150)
    world.made["a"].statistics.memory = (better,)
    await world.repository.load("c")
    assert world.states() == {"a": "evicted", "b": "READY", "c": "READY"}
    await world.repository.load("a")
    assert world.when_begun["a"] == {"a": "LOADING", "b": "evicted", "c": "READY"}


async def test_a_load_that_takes_more_than_expected_makes_others_go_afterwards(
    tmp_path: pathlib.Path,
) -> None:
    world = World(tmp_path, limit=300)
    world.write(a=100, b=100)
    world.sizes["b"] = 250
    for name in ("a", "b"):
        await world.repository.load(name)
    await world.settled(lambda: world.states() == {"a": "evicted", "b": "READY"})


async def test_a_model_that_is_too_large_by_itself_serves_with_a_warning(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    world = World(tmp_path, limit=300)
    world.write(a=100)
    world.sizes["a"] = 300_000
    with caplog.at_level(logging.WARNING, "naiad.memory"):
        await world.repository.load("a")
    assert world.states() == {"a": "READY"}
    assert "a is loaded and memory is over --model-memory-limit by 0.3 MB" in caplog.text


async def test_a_load_that_can_never_fit_is_refused_and_the_others_stay(
    tmp_path: pathlib.Path,
) -> None:
    world = World(tmp_path, limit=300)
    world.write(a=100, large=1000)
    await world.repository.load("a")
    with pytest.raises(InferenceError) as caught:
        await world.repository.load("large")
    assert "not enough memory within --model-memory-limit" in caught.value.message
    assert world.states()["a"] == "READY"
    assert world.began == ["a"]


async def test_loads_at_start_follow_each_other_when_they_do_not_fit_together(
    tmp_path: pathlib.Path,
) -> None:
    world = World(tmp_path, limit=150)
    world.write(a=100, b=100, c=100)
    assert await world.repository.load_all(), "an evicted model has not failed"
    assert sorted(world.states().values()) == ["READY", "evicted", "evicted"]


async def test_the_memory_of_a_load_that_fails_is_free_again(tmp_path: pathlib.Path) -> None:
    world = World(tmp_path, limit=150)
    world.write(bad=100, good=100)
    world.failing.add("bad")
    world.gates["bad"] = asyncio.Event()
    bad = asyncio.ensure_future(world.repository.load("bad"))
    await world.settled(lambda: world.began == ["bad"])
    good = asyncio.ensure_future(world.repository.load("good"))
    await world.settled(lambda: bool(world.pool._waiting))
    world.gates["bad"].set()
    await good
    with pytest.raises(InferenceError, match="cannot run"):
        await bad
    assert world.states()["good"] == "READY"


async def test_a_load_waits_until_the_model_that_goes_has_finished_its_requests(
    tmp_path: pathlib.Path,
) -> None:
    world = World(tmp_path, limit=150)
    world.write(a=100, b=100)
    await world.repository.load("a")
    world.made["a"].may_stop.clear()
    load = asyncio.ensure_future(world.repository.load("b"))
    await world.settled(lambda: world.states()["a"] == "UNLOADING")
    await world.settled(lambda: bool(world.pool._waiting))
    world.pool._wake()
    await world.settled(lambda: all(not woken.done() for woken in world.pool._waiting))
    assert world.pool._waiting
    assert world.began == ["a"]
    phases = {each.name: each.phase.value for each in world.repository.load_progress()}
    assert phases == {"a": "loaded", "b": "waiting"}
    world.made["a"].may_stop.set()
    await load
    assert world.phases["b"] == ["loading"]
    assert world.states() == {"a": "evicted", "b": "READY"}


async def test_a_load_that_fits_once_an_unload_in_progress_is_done_evicts_nothing(
    tmp_path: pathlib.Path,
) -> None:
    world = World(tmp_path, limit=250)
    world.write(a=100, b=100, c=100)
    for name in ("a", "b"):
        await world.repository.load(name)
    world.used("a")
    world.made["a"].may_stop.clear()
    unload = asyncio.ensure_future(world.repository.unload("a"))
    await world.settled(lambda: world.states()["a"] == "UNLOADING")
    load = asyncio.ensure_future(world.repository.load("c"))
    await world.settled(lambda: bool(world.pool._waiting))
    world.made["a"].may_stop.set()
    await asyncio.gather(unload, load)
    assert world.states() == {"a": "unloaded", "b": "READY", "c": "READY"}


async def test_a_load_does_not_wait_for_ever_for_requests(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "UNLOAD_SECONDS", 0.01)
    world = World(tmp_path, limit=150)
    world.write(a=100, b=100)
    await world.repository.load("a")
    stuck = world.made["a"]
    stuck.may_stop.clear()
    with pytest.raises(InferenceError, match="not enough memory"):
        await world.repository.load("b")
    stuck.may_stop.set()


async def test_models_that_load_others_do_not_wait_for_each_other_for_ever(
    tmp_path: pathlib.Path,
) -> None:
    """Each holds its memory, and waits for the load of another one that has no room."""
    world = World(tmp_path, limit=260)
    world.write(a=100, b=100, inner_a=100, inner_b=100)
    world.nested |= {"a": "inner_a", "b": "inner_b"}
    both_began = asyncio.Event()
    world.gates |= {"a": both_began, "b": both_began}
    loads = asyncio.gather(
        *(world.repository.load(name) for name in ("a", "b")), return_exceptions=True
    )
    await world.settled(lambda: sorted(world.began) == ["a", "b"])
    both_began.set()
    errors = [outcome for outcome in await loads if outcome is not None]
    assert errors, "there is no room for four"
    for error in errors:
        assert isinstance(error, InferenceError)
        assert "not enough memory" in error.message


async def test_the_end_of_the_server_ends_the_wait(tmp_path: pathlib.Path) -> None:
    world = World(tmp_path, limit=150)
    world.write(a=100, b=100)
    world.gates["a"] = asyncio.Event()
    loads = [asyncio.ensure_future(world.repository.load("a"))]
    await world.settled(lambda: world.began == ["a"])
    loads.append(asyncio.ensure_future(world.repository.load("b")))
    await world.settled(lambda: bool(world.pool._waiting))
    await world.repository.unload_all()
    outcomes = await asyncio.gather(*loads, return_exceptions=True)
    for outcome in outcomes:
        assert isinstance(outcome, InferenceError)
        assert outcome.code is ErrorCode.UNAVAILABLE
    assert not world.pool._waiting


async def test_a_load_that_waits_for_memory_leaves_its_place_to_one_that_waits_to_be_loaded(
    tmp_path: pathlib.Path,
) -> None:
    world = World(tmp_path, limit=100, slots=1)
    world.write(large=200, small=50)
    assert not await asyncio.wait_for(world.repository.load_all(), timeout=60)
    assert "not enough memory" in world.states()["large"]
    assert world.states()["small"] == "READY"


async def test_nothing_is_kept_of_a_model_that_is_gone_but_its_size(tmp_path: pathlib.Path) -> None:
    world = World(tmp_path, limit=1000)
    world.write(a=100, b=100)
    for name in ("a", "b"):
        await world.repository.load(name)
    assert len(world.pool._loaded_ms) == 2
    await world.repository.unload("a")
    await world.settled(lambda: world.states()["a"] == "unloaded")
    del world.made["a"]
    gc.collect()
    assert len(world.pool._loaded_ms) == 1


async def test_a_mount_that_hangs_takes_a_thread_of_the_loads_and_none_of_the_loop(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[str] = []

    def measured(_: object) -> int:
        threads.append(threading.current_thread().name)
        return 100

    monkeypatch.setattr(pool, "file_bytes", measured)
    world = World(tmp_path, limit=1000)
    world.write(a=100)
    await world.repository.load("a")
    assert [name.startswith("load") for name in threads] == [True]
