"""Tarballs from strangers: what is unpacked, what is refused, and layers over layers."""

import io
import pathlib
import tarfile
import typing

import pytest
from backports import zstd

from naiad.repository.stores.clients.decompression import MAX_HEADER_BYTES
from naiad.repository.stores.clients.listing import repository_root
from naiad.repository.stores.clients.unpacking import MAX_NAMES, Unpacker
from naiad.repository.stores.objects import StoreError
from tests.stores.clients.tarballs import entry, folder, link, raw_tarball, tarball

CONTENT = bytes(range(256)) * 500


def unpack(
    where: pathlib.Path,
    *layers: bytes,
    below: str = "",
    max_entries: int = 1000,
    max_names: int = MAX_NAMES,
) -> dict[str, bytes | None]:
    """Contents by name; None for an empty folder."""
    where.mkdir(exist_ok=True)
    unpacker = Unpacker(
        where,
        where="https://host/m.tar",
        below=below,
        max_entries=max_entries,
        max_names=max_names,
    )
    for layer in layers:
        unpacker.add(io.BytesIO(layer))
    entries = unpacker.entries()
    return {name: file.path.read_bytes() if file else None for name, file in entries.items()}


@pytest.mark.parametrize("compression", ["", "gz", "bz2", "xz"])
def test_every_compression(tmp_path: pathlib.Path, compression: str) -> None:
    packed = tarball(
        ("./a/1/model.onnx", CONTENT), folder("a/2/"), ("a/empty", b""), compression=compression
    )
    assert unpack(tmp_path, packed) == {"a/1/model.onnx": CONTENT, "a/2/": None, "a/empty": b""}


def test_zstd(tmp_path: pathlib.Path) -> None:
    packed = zstd.compress(tarball(("a/1/m", CONTENT)))
    assert unpack(tmp_path, packed) == {"a/1/m": CONTENT}


def test_sizes_times_and_hashes(tmp_path: pathlib.Path) -> None:
    unpacker = Unpacker(tmp_path, where="x")
    unpacker.add(io.BytesIO(tarball(("a", b"abc"), entry("b", mtime=-5), entry("c", mtime=1e300))))
    files = {name: file for name, file in unpacker.entries().items() if file}
    assert files["a"].size == 3
    assert files["a"].modified_ns == 1_700_000_000 * 10**9
    assert files["a"].sha256.startswith("ba7816bf8f01cfea")
    assert files["b"].modified_ns == 0
    assert files["c"].modified_ns < 1 << 63


@pytest.mark.parametrize(
    ("members", "why"),
    [
        ([("../evil", b"x")], "'../evil' is refused: this name leads out"),
        ([("a/../../evil", b"x")], "leads out"),
        ([("/etc/evil", b"x")], "leads out"),
        ([("a//b", b"x")], "leads out"),
        ([folder("..")], "leads out"),
        ([link("a", "/etc/passwd")], "'a' is refused: this link leads out"),
        ([link("a/b", "../../passwd")], "leads out"),
        ([link("a", "../passwd", tarfile.LNKTYPE)], "leads out"),
        ([link("a", "b"), link("b", "../c")], "leads out"),
        ([link("a", "b")], "leads to b, which does not exist"),
        ([link("a", "b"), link("b", "a")], "leads back to itself"),
        ([link("a/b", "."), ("a/c", b"")], "leads to a folder that holds links to folders"),
        ([link("a", "b"), ("b/c", b""), ("a/evil", b"x")], "in a folder that is a link"),
        ([("a", b""), ("a/b", b"x")], "in a folder that is a link or a file"),
        ([entry("a", type=tarfile.CHRTYPE)], "neither a file"),
        ([entry("a", type=tarfile.FIFOTYPE)], "neither a file"),
    ],
)
def test_what_leads_out_or_is_not_a_file_is_refused_by_name(
    tmp_path: pathlib.Path, members: list[tuple[tarfile.TarInfo, bytes]], why: str
) -> None:
    inside = tmp_path / "in"
    inside.mkdir()
    with pytest.raises(StoreError, match=why) as refused:
        unpack(inside, tarball(*members))
    assert refused.value.message.startswith("https://host/m.tar: ")
    assert [path.name for path in tmp_path.iterdir()] == ["in"]
    assert all(path.name.isdecimal() for path in inside.iterdir())


def _pax(text: str, *, kind: bytes = tarfile.XHDTYPE) -> tuple[tarfile.TarInfo, bytes]:
    """An extended header with one long value."""
    return entry("pax", _record("comment", text), type=kind)


def _record(key: str, value: str) -> bytes:
    """A record of an extended header, which begins with its own length."""
    body = f" {key}={value}\n"
    length = len(body)
    while length != len(body) + len(str(length)):
        length = len(body) + len(str(length))
    return f"{length}{body}".encode()


def _long_name(count: int) -> tuple[tarfile.TarInfo, bytes]:
    return entry("name", b"a" * count, type=tarfile.GNUTYPE_LONGNAME)


def _sparse(count: int) -> list[tuple[tarfile.TarInfo, bytes]]:
    """A sparse file of PAX version 1.0 with a long map."""
    keys = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": "a"}
    records = b"".join(_record(key, value) for key, value in keys.items())
    return [
        entry("pax", records, type=tarfile.XHDTYPE),
        entry("a", f"{count}\n".encode() + b"0\n" * 2 * count),
    ]


@pytest.mark.parametrize(
    "members",
    [
        [_pax("x" * 2 * MAX_HEADER_BYTES), entry("a")],
        [entry("first", CONTENT * 20), _pax("x" * 2 * MAX_HEADER_BYTES), entry("a")],
        [_pax("x" * 2 * MAX_HEADER_BYTES, kind=tarfile.XGLTYPE), entry("a")],
        [_long_name(2 * MAX_HEADER_BYTES), entry("a")],
        _sparse(MAX_HEADER_BYTES),
        [_pax("x") for _ in range(2000)],
    ],
    ids=["extended", "later", "global", "long name", "sparse", "chain"],
)
def test_headers_are_bounded(
    tmp_path: pathlib.Path, members: list[tuple[tarfile.TarInfo, bytes]]
) -> None:
    with pytest.raises(StoreError, match="not a readable tarball") as refused:
        unpack(tmp_path, raw_tarball(*members))
    assert len(refused.value.message) < 300


def test_global_headers_that_add_up_are_refused(tmp_path: pathlib.Path) -> None:
    members = list[tuple[tarfile.TarInfo, bytes]]()
    for number in range(5):
        header, record = _pax("x" * (MAX_HEADER_BYTES // 4), kind=tarfile.XGLTYPE)
        members += [(header, record.replace(b"comment", b"commen%d" % number)), entry(str(number))]
    with pytest.raises(StoreError, match="the headers of an entry have more than"):
        unpack(tmp_path, raw_tarball(*members))


def test_long_names_and_many_entries_are_within_the_bound(tmp_path: pathlib.Path) -> None:
    names = [f"{'d' * 200}/{number}/{'f' * 200}" for number in range(3000)]
    forms: tuple[typing.Literal[1, 2], ...] = (1, 2)
    for form in forms:
        where = tmp_path / str(form)
        where.mkdir()
        packed = raw_tarball(*(entry(name, CONTENT[:600]) for name in names), form=form)
        assert len(unpack(where, packed, max_entries=5000)) == 3000


def test_links_inside_are_files_and_folders(tmp_path: pathlib.Path) -> None:
    packed = tarball(
        ("blobs/x", b"weights"),
        link("a/1/model.onnx", "../../blobs/x"),
        link("a/2", "1"),
        link("hard", "blobs/x", tarfile.LNKTYPE),
        link("b", "./a/1/../2"),
    )
    names = ("blobs/x", "a/1/model.onnx", "hard", "a/2/model.onnx", "b/model.onnx")
    assert unpack(tmp_path, packed) == dict.fromkeys(names, b"weights")


@pytest.mark.parametrize("compression", ["", "gz", "bz2", "xz"])
def test_a_tarball_that_was_cut_off_anywhere_is_refused(
    tmp_path: pathlib.Path, compression: str
) -> None:
    packed = tarball(("a", CONTENT), ("b", b"1" * 512), compression=compression).rstrip(b"\0")
    ends = {0, 1, 3, 100, 512, 700, len(packed) // 2, len(packed) - 512, len(packed) - 1}
    for end in sorted(end for end in ends if end < len(packed)):
        where = tmp_path / str(end)
        where.mkdir()
        with pytest.raises(StoreError, match="is not a readable tarball"):
            unpack(where, packed[:end])


def test_whole_members_without_the_mark_of_the_end_are_refused(tmp_path: pathlib.Path) -> None:
    packed = tarball(("a", CONTENT), ("b", b"1" * 512)).rstrip(b"\0")
    for end in (512 + len(CONTENT), len(packed)):
        (tmp_path / str(end)).mkdir()
        with pytest.raises(StoreError, match="it ends early"):
            unpack(tmp_path / str(end), packed[:end])


@pytest.mark.parametrize(
    "content",
    [b"PK\3\4 not a tarball", b"<html>" * 1000, b"\x1f\x8b no gzip", b"\x28\xb5\x2f\xfd no"],
)
def test_other_contents_are_refused(tmp_path: pathlib.Path, content: bytes) -> None:
    with pytest.raises(StoreError, match="is not a readable tarball"):
        unpack(tmp_path, content)


def test_entries_are_bounded_also_those_that_links_make(tmp_path: pathlib.Path) -> None:
    many = tarball(*((f"a/{number}", b"") for number in range(20)))
    first = tmp_path / "first"
    first.mkdir()
    with pytest.raises(StoreError, match="more than 10 entries"):
        unpack(first, many, max_entries=10)
    links = [link(f"link{number}", "a") for number in range(20)]
    with pytest.raises(StoreError, match="more than 100 entries"):
        unpack(tmp_path, tarball(*((f"a/{n}", b"") for n in range(20)), *links), max_entries=100)


@pytest.mark.parametrize(
    "member", [("a/" * 2_050, b""), link("a", "b/" * 2_050), link("a/" * 2_050, "b")]
)
def test_a_name_that_is_too_long_for_a_path_is_refused(
    tmp_path: pathlib.Path, member: typing.Any
) -> None:
    with pytest.raises(StoreError, match="a name of more than 4,096 characters"):
        unpack(tmp_path, tarball(member))


def test_the_length_of_all_names_is_bounded_also_of_those_that_links_make(
    tmp_path: pathlib.Path,
) -> None:
    files = [(f"a/{number:02}", b"") for number in range(20)]
    long = link("x" * 200, "a")
    packed = tarball(*files, long)
    unpacked = unpack(tmp_path / "enough", packed, max_names=80 + 201 + 20 * 203)
    assert len(unpacked) == 40
    for place, most in (("links", 80 + 201 + 20 * 203 - 1), ("names", 200)):
        with pytest.raises(StoreError, match=f"have more than {most:,} characters"):
            unpack(tmp_path / place, packed, max_names=most)


def test_a_member_that_does_not_fit_on_the_disk_is_refused_before_it_is_written(
    tmp_path: pathlib.Path,
) -> None:
    info, _ = entry("a")
    info.size = 1 << 60
    with pytest.raises(StoreError, match=r"a has 1,152,921,504,606,846,976 bytes.*has room for"):
        unpack(tmp_path, info.tobuf(tarfile.GNU_FORMAT) + bytes(10_000))
    assert list(tmp_path.iterdir()) == []


def test_a_sparse_member_is_refused(tmp_path: pathlib.Path) -> None:
    info, _ = entry("a", type=tarfile.GNUTYPE_SPARSE)
    with pytest.raises(StoreError, match="neither a file"):
        unpack(tmp_path, info.tobuf(tarfile.GNU_FORMAT) + bytes(10_000))


def test_layers_replace_and_remove_what_is_below_them(tmp_path: pathlib.Path) -> None:
    first = tarball(
        ("etc/passwd", b"-"), folder("models/"), folder("models/a/"), ("models/a/1/m", b"old"), ("models/a/x", b"x"),
        ("models/b/1/m", b"b"), ("models/c/1/m", b"c"), link("models/d", "c"), ("models/e", b"e"),
    )  # fmt: skip
    second = tarball(
        ("models/a/1/m", b"new"), ("models/a/.wh.x", b""), ("models/.wh.b", b""), ("models/c/.wh..wh..opq", b""), ("models/c/2/m", b"c2"),
        ("models/d/1/m", b"d"), folder("models/e"), ("models/e/1/m", b"e1"),
    )  # fmt: skip
    assert unpack(tmp_path, first, second, below="models/") == {
        "a/1/m": b"new", "c/2/m": b"c2", "d/1/m": b"d", "e/1/m": b"e1",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("names", "root"),
    [
        (["models/a/1/m", "models/b/config.pbtxt"], "models/"),
        (["a/1/m"], ""),
        (["a/config.pbtxt", "a/model.py"], ""),
        (["a/1/m", "b/1/m"], ""),
        (["models/a/1/m", "README"], ""),
        (["models/a/"], "models/"),
        (["file"], ""),
        ([], ""),
    ],
)
def test_the_only_folder_at_the_top_is_the_repository_unless_it_is_a_model(
    names: list[str], root: str
) -> None:
    assert repository_root(names) == root
