"""The local store: the least recently used entries make room, by bytes."""

from naiad.core.tensor import Texts
from naiad.response_cache.entry import CachedResponse
from naiad.response_cache.local import LocalStore
from naiad.response_cache.store import Inserted


def entry(size: int) -> CachedResponse:
    return CachedResponse([], {}, size, Texts())


def found(store: LocalStore, key: bytes) -> int:
    """The size of an entry; 0 for none."""
    got: list[CachedResponse | None] = []
    store.look_up("m", key, got.append)
    (only,) = got
    return 0 if only is None else only.size


def test_the_least_recently_used_makes_room() -> None:
    store = LocalStore(1000)
    for key in (b"a", b"b", b"c"):
        assert store.insert("m", key, entry(300)) is Inserted.NEW
    assert found(store, b"a") == 300
    assert store.insert("m", b"d", entry(300)) is Inserted.NEW
    assert [found(store, key) for key in (b"a", b"b", b"c", b"d")] == [300, 0, 300, 300]
    assert (store.used, store.evicted, len(store)) == (900, 1, 3)


def test_one_large_entry_makes_several_go() -> None:
    store = LocalStore(1000)
    for key in (b"a", b"b", b"c"):
        store.insert("m", key, entry(300))
    store.insert("m", b"d", entry(700))
    assert [found(store, key) for key in (b"a", b"b", b"c", b"d")] == [0, 0, 300, 700]


def test_what_does_not_fit_and_what_is_there_changes_nothing() -> None:
    store = LocalStore(1000)
    assert store.insert("m", b"a", entry(1001)) is Inserted.TOO_LARGE
    assert store.insert("m", b"a", entry(1000)) is Inserted.NEW
    assert store.insert("m", b"a", entry(10)) is Inserted.KNOWN
    assert found(store, b"a") == store.used == 1000


def test_the_entries_of_an_unloaded_model_go_and_those_of_others_stay() -> None:
    store = LocalStore(1000)
    store.insert("m", b"a", entry(100))
    store.insert("n", b"b", entry(200))
    store.forget("m")
    store.forget("m")
    assert [found(store, key) for key in (b"a", b"b")] == [0, 200]
    assert store.used == 200


def test_an_entry_that_made_room_is_not_dropped_twice() -> None:
    store = LocalStore(300)
    store.insert("m", b"a", entry(300))
    store.insert("n", b"b", entry(300))
    store.forget("m")
    assert store.used == 300


def test_what_protocols_have_written_of_an_entry_counts_too() -> None:
    store = LocalStore(1000)
    entries = {key: entry(300) for key in (b"a", b"b", b"c")}
    for key, kept in entries.items():
        store.insert("m", key, kept)
    entries[b"b"].texts.keep("Y", b"x" * 300, 300)
    store.measure(b"b", entries[b"b"])
    store.measure(b"b", entries[b"b"])
    assert (store.used, len(store)) == (900, 2)
    assert [found(store, key) for key in (b"a", b"b", b"c")] == [0, 300, 300]
    store.forget("m")
    assert store.used == 0


def test_a_text_that_is_larger_than_the_store_is_not_kept() -> None:
    store = LocalStore(1000)
    kept = entry(300)
    store.insert("m", b"a", kept)
    kept.texts.keep("Y", b"", 800)
    store.measure(b"a", kept)
    assert (store.used, kept.texts.by_name) == (300, {})


def test_an_entry_that_is_gone_is_not_measured() -> None:
    store = LocalStore(1000)
    store.measure(b"a", entry(5))
    assert store.used == 0
