"""The watches of children and pods: one reflector per kind and watched namespace, and what cannot be watched.

A kind that every API server has is required: without it a reconcile would take existing children for missing, so nothing is
reconciled before it is listed. An optional kind (KEDA, the Gateway API, the Prometheus operator) that cannot be listed stops
nothing: its objects are neither written nor deleted, the affected services say so, and everything else goes on.
"""

import asyncio
import collections
import collections.abc
import dataclasses
import logging

from naiad_operator.builders import kinds, names as labels
from naiad_operator.cluster import child_store, client, errors
from naiad_operator.cluster.reflector import GRACE_S, Reflector, WatchTimeouts
from naiad_operator.cluster.resource_ref import ResourceRef
from naiad_operator.runtime.tasks import Tasks

_log = logging.getLogger(__name__)

POD = kinds.Kind("v1", "Pod", "pods", optional=False)
_NEWEST = str(2**63)
"""A resourceVersion that is newer than any other."""
_CHILD_VERBS = "get, list, watch, create, patch, delete"
_POD_VERBS = "get, list, watch"


@dataclasses.dataclass(frozen=True, slots=True)
class WatchProblem:
    """A kind that cannot be watched.

    Attributes:
        kind: the kind.
        namespace: where it cannot be watched; "" means all namespaces.
        message: the API server's message, and what to do.
    """

    kind: kinds.Kind
    namespace: str
    message: str


def problem_of(
    kind: kinds.Kind,
    ref: ResourceRef,
    error: errors.ApiError | None,
    *,
    was_listed: bool,
    failing_for: float,
) -> WatchProblem | None:
    """Why a kind counts as not watchable; None while it is watched, or while its error is likely to pass.

    Args:
        kind: the kind.
        ref: its collection.
        error: the reflector's current error.
        was_listed: whether the store has objects of the kind, which continue to be used during errors that pass.
        failing_for: seconds since the first of these errors.
    """
    if error is None:
        return None
    if isinstance(error, errors.Forbidden):
        group = kind.api_version.rpartition("/")[0]
        verbs = _POD_VERBS if kind is POD else _CHILD_VERBS
        rule = (
            f'add to its role: apiGroups: ["{group}"], resources: [{kind.plural}], verbs: [{verbs}]'
        )
        return WatchProblem(kind, ref.namespace, f"the operator {error}; {rule}")
    if isinstance(error, errors.NotFound):
        return WatchProblem(kind, ref.namespace, f"the API server does not serve {ref}: {error}")
    if was_listed or failing_for < GRACE_S:
        return None
    return WatchProblem(kind, ref.namespace, f"the operator {error}")


class Watches:
    """The reflectors of all kinds.

    Args:
        api: the client of the API server.
        store: receives the objects.
        tasks: runs the reflectors.
        namespaces: the watched namespaces; empty means all.
        timeouts: the timeouts of the watches.
        on_change: called when a kind has become watchable, or no longer is.
        on_missing: called when the API server does not know a kind that it has announced.
        on_recovery: called when a watch that had failed is open again.
    """

    def __init__(
        self,
        api: client.Client,
        store: child_store.ChildStore,
        tasks: Tasks,
        *,
        namespaces: collections.abc.Sequence[str],
        timeouts: WatchTimeouts,
        on_change: collections.abc.Callable[[], None],
        on_missing: collections.abc.Callable[[], None],
        on_recovery: collections.abc.Callable[[], None],
    ) -> None:
        self._api = api
        self._store = store
        self._tasks = tasks
        self._namespaces = tuple(namespaces) or ("",)
        self._timeouts = timeouts
        self._on_change = on_change
        self._on_missing = on_missing
        self._on_recovery = on_recovery
        self._failing: set[tuple[kinds.Kind, str]] = set()
        self._reflectors: dict[tuple[kinds.Kind, str], Reflector] = {}
        self._problems: dict[tuple[kinds.Kind, str], WatchProblem] = {}
        self._changed = asyncio.Event()

    def follow(self, served: collections.abc.Set[str]) -> None:
        """Starts a reflector for each served kind that has none, and stops those of kinds that are no longer served.

        Args:
            served: every kind that the API server serves, as "group/version/Kind".
        """
        wanted = [kind for kind in kinds.KINDS if not kind.optional or kind.key in served]
        wanted.append(POD)
        for kind, namespace in [key for key in self._reflectors if key[0] not in wanted]:
            self._tasks.cancel(_task_name(self._reflectors.pop((kind, namespace)).ref))
            self._store.prune(kind.kind, namespace, present=frozenset(), version=_NEWEST)
        for kind in wanted:
            for namespace in self._namespaces:
                if (kind, namespace) not in self._reflectors:
                    self._start(kind, namespace)
        self._review()

    async def wait(self) -> None:
        """Waits until every required kind is listed, and every optional one is listed or cannot be."""
        while self._missing():
            self._changed.clear()
            await self._changed.wait()

    def problems(self, namespace: str) -> dict[str, str]:
        """Why optional kinds cannot be watched in a namespace: by kind, a message."""
        return {
            problem.kind.kind: problem.message
            for problem in self._problems.values()
            if problem.kind.optional and problem.namespace in ("", namespace)
        }

    def all_problems(self) -> list[WatchProblem]:
        """Every kind that cannot be watched."""
        return list(self._problems.values())

    def blocking(self) -> str:
        """Why reconciles cannot start, or use outdated objects, as a message; "" when all required kinds are watched."""
        for (kind, namespace), reflector in self._reflectors.items():
            problem = self._problems.get((kind, namespace))
            if problem is not None:
                if not kind.optional:
                    return problem.message
            elif not reflector.listed.is_set():
                error = f": {reflector.last_error}" if reflector.last_error is not None else ""
                return f"{reflector.ref} are not listed yet{error}"
        return "" if self._reflectors else "no watch has been started yet"

    def restarts(self) -> collections.Counter[str]:
        """The number of failed watches by resource."""
        counted: collections.Counter[str] = collections.Counter()
        for reflector in self._reflectors.values():
            counted[reflector.ref.plural] += reflector.restarts
        return counted

    def _missing(self) -> bool:
        if not self._reflectors:
            return True
        return any(
            not reflector.listed.is_set()
            and not (kind.optional and (kind, namespace) in self._problems)
            for (kind, namespace), reflector in self._reflectors.items()
        )

    def _start(self, kind: kinds.Kind, namespace: str) -> None:
        ref = ResourceRef(kind.api_version, kind.plural, namespace)
        reflector = Reflector(
            self._api,
            ref,
            labels=labels.CHILD_SELECTOR,
            handler=_StoreHandler(self._store, kind.kind),
            timeouts=self._timeouts,
            on_state=self._review,
        )
        self._reflectors[kind, namespace] = reflector
        self._tasks.start(_task_name(ref), reflector.run())

    def _review(self) -> None:
        """Updates the problems after the state of a reflector has changed."""
        before, self._problems = self._problems, {}
        for key, reflector in self._reflectors.items():
            problem = problem_of(
                key[0],
                reflector.ref,
                reflector.last_error,
                was_listed=reflector.listed.is_set(),
                failing_for=reflector.failing_for(),
            )
            if problem is not None:
                self._problems[key] = problem
                if key not in before:
                    level = logging.WARNING if key[0].optional else logging.ERROR
                    _log.log(level, "not watched: %s", problem.message)
            elif key in before:
                _log.info("%s are watched again", reflector.ref)
        self._changed.set()
        failing = {key for key, watch in self._reflectors.items() if watch.last_error is not None}
        recovered, self._failing = self._failing - failing, failing
        if recovered:
            self._on_recovery()
        if any(
            isinstance(reflector.last_error, errors.NotFound)
            for reflector in self._reflectors.values()
        ):
            self._on_missing()
        if self._problems.keys() != before.keys():
            self._on_change()


class _StoreHandler:
    """Passes the events of a reflector to the store, with the kind, which items of a list do not contain."""

    def __init__(self, store: child_store.ChildStore, kind: str) -> None:
        self._store = store
        self._kind = kind

    def on_update(self, ref: ResourceRef, item: client.Object) -> None:
        """Stores an object that is new or has changed."""
        self._store.update(self._kind, item)

    def on_delete(self, ref: ResourceRef, item: client.Object) -> None:
        """Removes an object that was deleted."""
        metadata = item["metadata"]
        self._store.remove(metadata["uid"], metadata["resourceVersion"])

    def on_replace(self, ref: ResourceRef, present: collections.abc.Set[str], version: str) -> None:
        """Removes the objects that are not in a complete list."""
        self._store.prune(self._kind, ref.namespace, present=present, version=version)


def _task_name(ref: ResourceRef) -> str:
    """The name of the task that watches a collection."""
    return f"watch {ref}"
