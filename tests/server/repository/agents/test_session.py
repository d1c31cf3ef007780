"""The agents of a load: their order, what a failure leaves, and calls that hang."""

import asyncio
import pathlib
import threading
import typing

import pytest
from typing_extensions import override

from naiad.errors import InferenceError
from naiad.repository.agents import registry as registry_module
from naiad.repository.agents.actions import AgentEvent
from naiad.repository.agents.agent import AgentError, AgentModel, RepositoryAgent
from naiad.repository.agents.catalog import AgentCatalog
from naiad.repository.agents.registry import MOST_ABANDONED, AgentRegistry
from naiad.repository.agents.session import AgentSession, AgentSpec
from tests.support.waiting import until

COMPLETE, UNLOAD, END = AgentEvent.COMPLETE, AgentEvent.UNLOAD, AgentEvent.END


FINALIZED = {"a finalize", "b finalize"}
"""Agents that are no longer used are finalized at the same time, each in a thread."""


class Recorder(RepositoryAgent):
    """Notes its calls; `actions` says what else it does."""

    def __init__(self, name: str, world: "World") -> None:
        self.name = name
        self.world = world

    @override
    def initialize(self) -> None:
        self.world.run(self.name, "initialize", None)

    @override
    def finalize(self) -> None:
        self.world.run(self.name, "finalize", None)

    @override
    def load(self, model: AgentModel) -> None:
        self.timeout_seconds = self.world.load_seconds
        self.world.run(self.name, "load", model)

    @override
    def load_complete(self, model: AgentModel) -> None:
        self.world.run(self.name, "load_complete", model)

    @override
    def load_fail(self, model: AgentModel) -> None:
        self.world.run(self.name, "load_fail", model)

    @override
    def unload(self, model: AgentModel) -> None:
        self.world.run(self.name, "unload", model)

    @override
    def unload_complete(self, model: AgentModel) -> None:
        self.world.run(self.name, "unload_complete", model)


class World(AgentCatalog):
    """Agents with any name.

    Attributes:
        calls: all of them, in order.
        actions: what an agent does in a call, by "NAME METHOD".
        load_seconds: the limit of a load.
    """

    def __init__(self) -> None:
        super().__init__(pathlib.Path("/none"))
        self.calls: list[str] = []
        self.actions: dict[str, typing.Callable[[AgentModel], object]] = {}
        self.load_seconds = 60.0
        self.registry = AgentRegistry(self)

    @override
    def make(self, name: str) -> RepositoryAgent:
        return Recorder(name, self)

    def run(self, name: str, method: str, model: AgentModel | None) -> None:
        assert threading.current_thread() is not threading.main_thread()
        self.calls.append(f"{name} {method}")
        action = self.actions.get(self.calls[-1])
        if action is not None:
            action(typing.cast(AgentModel, model))

    def session(self, *names: str, model: str = "m") -> AgentSession:
        specs = [AgentSpec(name, {"of": name}) for name in names]
        return AgentSession(model, pathlib.Path("/r") / model, specs, self.registry)

    async def failed(self, session: AgentSession) -> str:
        """Load, which must fail, and end."""
        with pytest.raises(InferenceError) as error:
            await session.load()
        await session.apply(END)
        await self.registry.join()
        return error.value.message


def raises(error: BaseException) -> typing.Callable[[AgentModel], object]:
    def action(_: AgentModel) -> object:
        raise error

    return action


async def test_agents_run_in_order_and_are_notified_of_the_end_in_reverse() -> None:
    world = World()
    session = world.session("a", "b")
    await session.load()
    for event in (COMPLETE, UNLOAD, UNLOAD, END):
        await session.apply(event)
    await world.registry.join()
    assert world.calls[:-2] == [
        *("a initialize", "a load", "b initialize", "b load"),
        *("b load_complete", "a load_complete"),
        *("a unload", "b unload"),
        *("b unload_complete", "a unload_complete"),
    ]
    assert set(world.calls[-2:]) == FINALIZED


async def test_an_agent_is_initialized_once_for_all_models() -> None:
    world = World()
    sessions = [world.session("a", model=name) for name in ("m", "n")]
    await asyncio.gather(*(session.load() for session in sessions))
    await sessions[0].apply(END)
    third = world.session("a", model="o")
    await third.load()
    assert world.calls.count("a initialize") == 1
    for session in (sessions[1], third):
        await session.apply(END)
    await world.registry.join()
    assert world.calls.count("a finalize") == 1
    await world.session("a").load()
    assert world.calls.count("a initialize") == 2


async def test_an_agent_sees_what_the_one_before_left() -> None:
    world = World()
    seen: list[AgentModel] = []

    def relocate(model: AgentModel) -> None:
        (model.new_folder() / "1").mkdir()
        model.relocate(model.new_folder())

    world.actions = {"b load": relocate, "c load": seen.append}
    session = world.session("a", "b", "c")
    await session.load()
    assert seen[0].folder == session.folder
    assert seen[0].parameters == {"of": "c"}
    assert (session.folder.name, session.folder / "1") == ("m", next(session.folder.iterdir()))
    await session.apply(END)
    assert not session.folder.exists()


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (AgentError("no key"), "repository agent 'b': no key"),
        (ValueError("no key"), "repository agent 'b': load of model 'm' raised ValueError: no key"),
        (SystemExit(3), "repository agent 'b': raised SystemExit: 3"),
    ],
)
async def test_a_failure_ends_the_load_for_every_agent_that_was_called(
    error: BaseException, message: str
) -> None:
    world = World()
    folders: list[pathlib.Path] = []
    world.actions = {
        "a load": lambda model: folders.append(model.new_folder()),
        "b load": raises(error),
    }
    assert await world.failed(world.session("a", "b", "c")) == message
    assert world.calls[3:6] == ["b load", "b load_fail", "a load_fail"]
    assert "c initialize" not in world.calls
    assert not folders[0].exists()


async def test_an_agent_that_cannot_start_fails_each_load_and_may_recover() -> None:
    world = World()
    world.actions = {"a initialize": raises(OSError("no vault"))}
    for _ in range(2):
        assert "initialize raised OSError: no vault" in await world.failed(world.session("a"))
    assert world.calls == ["a initialize", "a initialize"]
    world.actions = {}
    await world.session("a").load()


async def test_what_other_calls_raise_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    world.actions = {
        f"b {method}": raises(ValueError("odd"))
        for method in ("load_complete", "unload", "unload_complete", "finalize")
    }
    session = world.session("a", "b")
    await session.load()
    for event in (COMPLETE, END):
        await session.apply(event)
    await world.registry.join()
    assert set(world.calls[-2:]) == FINALIZED
    assert "a unload_complete" in world.calls
    for method in ("load_complete", "unload", "unload_complete"):
        assert f"model 'm': repository agent 'b': {method} of model 'm' raised" in caplog.text


async def test_a_load_that_hangs_fails_and_its_agent_is_not_called_about_it_again() -> None:
    world = World()
    may_end, folders = threading.Event(), list[pathlib.Path]()

    def hang(model: AgentModel) -> None:
        # A thread that a busy machine starts after the limit gets no folder any more.
        if not folders:
            folders.append(model.new_folder())
        may_end.wait()

    world.actions = {"b load": hang, "b initialize": lambda _: None}
    agent = await world.registry.acquire("b")
    agent.timeout_seconds = 1.0  # long enough to begin
    world.load_seconds = 0.05  # of the loads after the first
    message = await world.failed(world.session("a", "b"))
    assert message.startswith("repository agent 'b': load of model 'm' did not return in time;")
    assert "a load_fail" in world.calls
    assert "b load_fail" not in world.calls
    assert not folders[0].exists()
    for _ in range(MOST_ABANDONED - 1):
        await world.failed(world.session("b"))
    message = await world.failed(world.session("b"))
    may_end.set()
    assert message.startswith("repository agent 'b' is not called: 8 calls to it have not returned")
    world.actions = {}
    await until(lambda: not world.registry._abandoned["b"])
    await world.session("b").load()


async def test_a_call_that_hangs_elsewhere_holds_nothing_up_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(registry_module, "NOTIFICATION_SECONDS", 0.05)
    world = World()
    may_end = threading.Event()
    world.actions = {"b load_complete": lambda _: may_end.wait(60)}
    session = world.session("a", "b")
    await session.load()
    for event in (COMPLETE, UNLOAD, END):
        await session.apply(event)
    assert not {"b unload", "b unload_complete"}.intersection(world.calls)
    assert "a unload_complete" in world.calls
    may_end.set()


async def test_without_a_thread_a_load_fails_and_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    session = world.session("a")
    await session.load()

    def start(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", start)
        for event in (COMPLETE, UNLOAD):
            await session.apply(event)
        with pytest.raises(InferenceError, match="initialize cannot run: can't start new thread"):
            await world.session("b").load()
    await session.apply(END)
    await world.registry.join()
    assert world.calls[2:] == ["a unload_complete", "a finalize"]


async def test_a_server_that_stops_does_not_wait_for_agents(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(registry_module, "STOPPING_SECONDS", 0.05)
    world = World()
    begun, may_end = threading.Event(), threading.Event()

    def hang(_: AgentModel) -> None:
        begun.set()
        assert may_end.wait(60)

    world.actions = {"a load": hang, "b unload": hang}
    loaded = world.session("b")
    await loaded.load()
    await loaded.apply(COMPLETE)
    loading = asyncio.ensure_future(world.failed(world.session("a")))
    assert await asyncio.to_thread(begun.wait, 60)
    world.registry.interrupt()
    assert "was interrupted: the server is stopping" in await loading
    await loaded.apply(END)
    await world.registry.join()
    assert world.calls[-2:] == ["b unload", "b finalize"]
    may_end.set()


async def test_cancelling_the_caller_leaves_no_agent_behind() -> None:
    world = World()
    begun, may_end = threading.Event(), threading.Event()

    def wait(_: AgentModel) -> None:
        begun.set()
        assert may_end.wait(60)

    world.actions = {"a load": wait}
    session = world.session("a", "b")
    loading = asyncio.ensure_future(session.load())
    assert await asyncio.to_thread(begun.wait, 60)
    loading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await loading
    end = asyncio.ensure_future(session.apply(END))
    may_end.set()
    await end
    await world.registry.join()
    assert world.calls[-4:-2] == ["b load_fail", "a load_fail"]
    assert set(world.calls[-2:]) == FINALIZED
