"""A repository in a store of objects: names, fingerprints from few listings, checkouts of what changed, and keys that cannot be files."""

import concurrent.futures
import pathlib

import pytest

from naiad.core.clock import ManualClock
from naiad.errors import ErrorCode, InferenceError
from naiad.repository.stores import object_store
from naiad.repository.stores.cache import Lease
from naiad.repository.stores.layout import fingerprint, layout
from naiad.repository.stores.objects import StoredObject
from tests.stores.fakes import FakeClient, make_store

MODEL = {"m/config.pbtxt": b"config", "m/1/model.onnx": b"weights", "m/1/deep/x": b"x"}


def files(folder: pathlib.Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_the_models_are_the_folders_and_a_checkout_is_a_copy(tmp_path: pathlib.Path) -> None:
    client = FakeClient(
        **MODEL, **{"README": b"", ".git/x": b"", "/x": b"", "../x/y": b"", "n/1/": b""}
    )
    store = make_store(client, tmp_path)
    assert store.names() == ["m", "n"]
    checkout = store.checkout("m")
    assert checkout.folder.name == "m"
    assert files(checkout.folder) == {
        "config.pbtxt": b"config",
        "1/model.onnx": b"weights",
        "1/deep/x": b"x",
    }
    empty = store.checkout("n").folder
    assert [path.name for path in empty.iterdir()] == ["1"]
    assert checkout.release is not None
    checkout.release()
    assert not checkout.folder.parent.exists()


def test_a_second_checkout_downloads_what_has_changed_and_leaves_the_first_as_it_is(
    tmp_path: pathlib.Path,
) -> None:
    client = FakeClient(**MODEL)
    store = make_store(client, tmp_path, range_bytes=100)
    first = store.checkout("m").folder
    client.put("m/1/model.onnx", b"changed")
    store.names()
    second = store.checkout("m").folder
    assert files(first)["1/model.onnx"] == b"weights"
    assert files(second)["1/model.onnx"] == b"changed"
    assert client.reads == {"m/config.pbtxt": 1, "m/1/model.onnx": 2, "m/1/deep/x": 1}


def test_stores_of_one_server_and_those_of_a_process_that_was_ended_leave_each_others_checkouts_as_they_are(
    tmp_path: pathlib.Path,
) -> None:
    client = FakeClient(**MODEL, **{"n/1/x": b"x"})
    lease = Lease(tmp_path)
    first, second = (make_store(client, tmp_path, lease=lease) for _ in range(2))
    kept = first.checkout("m")
    others = [second.checkout(name) for name in ("m", "n")]
    for checkout in others:
        assert checkout.release is not None
        checkout.release()
    assert files(kept.folder)["1/model.onnx"] == b"weights"


def test_another_server_with_the_same_folder_downloads_nothing(tmp_path: pathlib.Path) -> None:
    client = FakeClient(**MODEL)
    make_store(client, tmp_path).checkout("m")
    client.reads.clear()
    assert files(make_store(client, tmp_path).checkout("m").folder)["1/model.onnx"] == b"weights"
    assert not client.reads


def test_what_is_in_the_cache_is_checked_out_also_where_there_is_no_room(
    tmp_path: pathlib.Path,
) -> None:
    client = FakeClient(**MODEL)
    make_store(client, tmp_path).checkout("m")
    make_store(client, tmp_path, limit=1).checkout("m")


def test_many_models_are_checked_out_at_the_same_time(tmp_path: pathlib.Path) -> None:
    models = {f"m{number}": bytes([number]) * 40 for number in range(60)}
    client = FakeClient(**{f"{name}/1/x": content for name, content in models.items()})
    stores = [make_store(client, tmp_path, limit=limit) for limit in (0, 1 << 20)]
    with concurrent.futures.ThreadPoolExecutor(32) as threads:
        for store in stores:
            store.names()
        checkouts = [threads.submit(store.checkout, name) for name in models for store in stores]
        folders = [checkout.result().folder for checkout in checkouts]
    assert all((folder / "1" / "x").read_bytes() == models[folder.name] for folder in folders)
    assert sum(client.reads.values()) == 60 * 10, "each object was downloaded once, in ten ranges"


def test_a_poll_of_many_models_takes_three_listings(tmp_path: pathlib.Path) -> None:
    client = FakeClient(**{f"m{number}/1/model.onnx": b"x" for number in range(100)})
    store = make_store(client, tmp_path)
    for poll in (1, 2):
        names = store.names()
        prints = {name: store.fingerprint(name) for name in names}
        assert len(prints) == 100
        assert client.listings.total() == 3 * poll
    client.put("m5/1/model.onnx", b"x")
    assert store.fingerprint("m5") == prints["m5"], "as of the last listing of names"
    listings = client.listings.total()
    assert store.fingerprint("unknown") == {}
    assert client.listings.total() == listings, "the listing of the whole repository says it"
    store.names()
    assert store.fingerprint("m5") != prints["m5"]
    assert store.fingerprint("m6") == prints["m6"]


def test_the_load_of_one_model_lists_only_that_model(tmp_path: pathlib.Path) -> None:
    client = FakeClient(**MODEL, **{"other/1/x": b""})
    store = make_store(client, tmp_path)
    store.names()
    store.fingerprint("m")
    store.checkout("m")
    assert client.listings == {("", False): 1, ("m", True): 1}


@pytest.mark.parametrize("other", [{}, {"other/1/x": b""}], ids=["alone", "beside another one"])
def test_a_model_that_changes_while_it_is_downloaded_is_listed_again(
    tmp_path: pathlib.Path, other: dict[str, bytes]
) -> None:
    client = FakeClient(**MODEL, **other)
    store = make_store(client, tmp_path)
    for name in store.names():
        store.fingerprint(name)
    client.put("m/1/model.onnx", b"newer!!")
    assert files(store.checkout("m").folder)["1/model.onnx"] == b"newer!!"


def test_a_model_that_changes_all_the_time_is_an_error(tmp_path: pathlib.Path) -> None:
    client = FakeClient(**MODEL)

    def changes(content: bytes, start: int, end: int):  # type: ignore[no-untyped-def]  # noqa: ANN202
        client.put("m/1/model.onnx", content)
        yield from client.read(StoredObject("m/1/model.onnx", 7, "v0"), start, end)

    client.how = changes
    store = make_store(client, tmp_path)
    with pytest.raises(InferenceError, match="changed"):
        store.checkout("m")
    assert not [path for path in tmp_path.rglob("m") if path.is_dir()]


def test_a_model_with_too_many_objects_fails_alone(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_store, "MAX_MODEL_OBJECTS", 10)
    client = FakeClient(**MODEL, **{f"huge/1/{number}": b"" for number in range(11)})
    store = make_store(client, tmp_path)
    for name in store.names():
        store.fingerprint(name)
    store.checkout("m")
    with pytest.raises(InferenceError, match="more than 10 objects: is this a model"):
        store.checkout("huge")


def test_a_repository_that_is_too_large_as_a_whole_is_listed_model_by_model(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_store, "MAX_REPOSITORY_OBJECTS", 6)
    client = FakeClient(**{f"{model}/1/{number}": b"" for model in "abc" for number in range(3)})
    store = make_store(client, tmp_path)
    for name in store.names():
        assert store.fingerprint(name)["1"]
    assert client.listings == {
        ("", False): 1,
        ("a", True): 1,
        ("", True): 1,
        ("b", True): 1,
        ("c", True): 1,
    }
    monkeypatch.setattr(object_store, "MAX_REPOSITORY_OBJECTS", 2)
    with pytest.raises(InferenceError, match="is this a model repository"):
        store.names()


def test_a_listing_that_does_not_end_in_time_is_unavailable(tmp_path: pathlib.Path) -> None:
    clock = ManualClock()
    client = FakeClient(**MODEL)
    store = make_store(client, tmp_path, clock=clock)
    listing = client.listing

    def slow(below: str = "", *, recursive: bool):  # type: ignore[no-untyped-def]  # noqa: ANN202
        for entry in listing(below, recursive=recursive):
            clock.advance(ns=20 * 10**9)
            yield entry

    client.listing = slow  # type: ignore[method-assign]
    with pytest.raises(InferenceError, match="takes longer than 25 s") as caught:
        store.checkout("m")
    assert caught.value.code is ErrorCode.UNAVAILABLE


@pytest.mark.parametrize(
    ("key", "problem"),
    [
        ("m//x", "two slashes"),
        ("m/1//", "two slashes"),
        ("m/../x", "'..'"),
        ("m/./x", "'.'"),
        ("m/1/a\nb", "control characters"),
        ("m/" + "a" * 256, "255 bytes"),
        ("m/1", "other objects are in a folder with this name"),
    ],
)
def test_a_key_that_cannot_be_a_file_fails_its_model_alone(
    tmp_path: pathlib.Path, key: str, problem: str
) -> None:
    client = FakeClient(**MODEL, **{key: b"x", "good/1/model.onnx": b"x"})
    store = make_store(client, tmp_path)
    for name in store.names():
        store.fingerprint(name)
    with pytest.raises(InferenceError, match=problem) as caught:
        store.checkout("m")
    assert caught.value.code is ErrorCode.INVALID_ARG
    assert "rename or delete it" in caught.value.message
    assert files(store.checkout("good").folder) == {"1/model.onnx": b"x"}


@pytest.mark.parametrize("name", ["..", "a/b", "", "/etc"])
def test_names_that_lead_elsewhere_are_refused(tmp_path: pathlib.Path, name: str) -> None:
    store = make_store(FakeClient(), tmp_path)
    for method in (store.fingerprint, store.checkout):
        with pytest.raises(InferenceError):
            method(name)


def test_a_fingerprint_has_one_hash_per_large_entry() -> None:
    objects = [StoredObject(f"m/1/{number}", 2, "v1") for number in range(101)]
    before = fingerprint("m", objects)
    ((path, _, size),) = before["1"]
    assert (path, size) == ("1/", 202)
    objects[5] = StoredObject("m/1/5", 2, "v2")
    assert fingerprint("m", objects) != before


def test_a_fingerprint_has_the_versions_of_objects_and_shows_folders_without_any() -> None:
    objects = [
        StoredObject(key, 1, "v1") for key in ("m/", "m/1/", "m/1/a", "m/2/", "m/config.pbtxt")
    ]
    before = fingerprint("m", objects)
    assert before == {
        "1": {("1/a", "v1", 1)},
        "2": frozenset(),
        "config.pbtxt": {("config.pbtxt", "v1", 1)},
    }
    objects[2] = StoredObject("m/1/a", 1, "v2")
    after = fingerprint("m", objects)
    assert {entry for entry in before if before[entry] != after[entry]} == {"1"}


def test_folders_of_a_layout_hold_everything_above_a_file() -> None:
    made = layout("m", [StoredObject("m/1/deep/x", 1, "v1"), StoredObject("m/2/", 0, "v1")])
    assert made.folders == {"1", "1/deep", "2"}
    assert list(made.files) == ["1/deep/x"]
