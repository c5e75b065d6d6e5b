"""Ground truth is found inside its roots only, and what is read is what was hashed."""

import hashlib
import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from theatre.engine.errors import DatasetError, DatasetMismatchError
from theatre.files import datasets
from theatre.files.datasets import MAX_LINE_BYTES, DatasetFile, DatasetRoots

LINES = b'{"episode_id":"1"}\n{"episode_id":"2"}\n'


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "data root"
    (folder / "ground_truth").mkdir(parents=True)
    (folder / "ground_truth" / "data.jsonl").write_bytes(LINES)
    return folder


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_a_dataset_is_opened_by_its_path_below_a_root(root: Path) -> None:
    dataset = DatasetRoots([root]).open("ground_truth/data.jsonl", sha256=digest(LINES))
    assert (dataset.sha256, dataset.lines_total) == (digest(LINES), 2)
    assert list(dataset.lines()) == LINES.splitlines()
    assert b"".join(dataset.chunks()) == LINES
    dataset.close()


def test_a_missing_dataset_is_refused_naming_path_and_roots(root: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    with pytest.raises(DatasetError) as caught:
        DatasetRoots([root, other]).open("ground_truth/none.jsonl", sha256=digest(LINES))
    assert str(caught.value) == (
        f"The dataset was not found: expected ground_truth/none.jsonl in {root}, {other}"
    )
    assert not isinstance(caught.value, DatasetMismatchError)


def test_a_changed_dataset_is_refused_with_both_hashes_and_is_closed(root: Path) -> None:
    before = open_descriptors()
    with pytest.raises(DatasetMismatchError) as caught:
        DatasetRoots([root]).open("ground_truth/data.jsonl", sha256="0" * 64)
    assert str(caught.value) == (
        "The dataset changed since the commitment: expected ground_truth/data.jsonl with SHA-256 "
        f"{'0' * 64}, got {digest(LINES)}. Restore the committed file, or commit the new one as a "
        "new theatre."
    )
    assert open_descriptors() == before


@pytest.mark.parametrize(
    "path",
    [
        "../data root/ground_truth/data.jsonl",
        "ground_truth/../ground_truth/data.jsonl",
        "..",
        "a/..",
    ],
)
def test_a_path_with_dots_is_refused_even_where_it_would_stay_inside(root: Path, path: str) -> None:
    with pytest.raises(DatasetError, match="expected a path inside a dataset root"):
        DatasetRoots([root]).find(path)


def test_an_absolute_path_is_refused(root: Path) -> None:
    with pytest.raises(DatasetError, match="expected a path inside a dataset root"):
        DatasetRoots([root]).find(str(root / "ground_truth" / "data.jsonl"))


def test_a_link_out_of_its_root_is_refused(root: Path, tmp_path: Path) -> None:
    (tmp_path / "outside.jsonl").write_bytes(LINES)
    (root / "link.jsonl").symlink_to(tmp_path / "outside.jsonl")
    (root / "folder").symlink_to(tmp_path)
    for path in ("link.jsonl", "folder/outside.jsonl"):
        with pytest.raises(DatasetError, match=r"got a link out, to /.+: put the file"):
            DatasetRoots([root]).find(path)


def test_a_link_inside_its_root_is_followed(root: Path) -> None:
    (root / "link.jsonl").symlink_to("ground_truth/data.jsonl")
    assert DatasetRoots([root]).find("link.jsonl") == root / "ground_truth" / "data.jsonl"


def test_a_root_may_itself_be_a_link(root: Path, tmp_path: Path) -> None:
    (tmp_path / "alias").symlink_to(root)
    found = DatasetRoots([tmp_path / "alias"]).find("ground_truth/data.jsonl")
    assert found == root / "ground_truth" / "data.jsonl"


def test_the_first_root_that_has_the_file_wins(root: Path, tmp_path: Path) -> None:
    second = tmp_path / "second"
    (second / "ground_truth").mkdir(parents=True)
    for name in ("data.jsonl", "only_here.jsonl"):
        (second / "ground_truth" / name).write_bytes(b"{}\n")
    roots = DatasetRoots([root, second])
    assert roots.find("ground_truth/data.jsonl").is_relative_to(root)
    assert roots.find("ground_truth/only_here.jsonl").is_relative_to(second)
    assert DatasetRoots([second, root]).find("ground_truth/data.jsonl").is_relative_to(second)


def _fifo(path: Path) -> None:
    os.mkfifo(path)


def _loop(path: Path) -> None:
    path.symlink_to(path.name)


def _dangling(path: Path) -> None:
    path.symlink_to("nowhere")


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))


@pytest.mark.parametrize("make", [Path.mkdir, _fifo, _loop, _dangling, _socket])
def test_what_is_no_regular_file_is_no_dataset(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    make(tmp_path / "d")
    with pytest.raises(DatasetError, match="The dataset was not found"):
        DatasetRoots([tmp_path]).find("d")


@pytest.mark.parametrize("path", ["", ".", "a\0b", "x" * 300, "ground_truth/data.jsonl/x"])
def test_a_path_that_names_no_file_is_refused(root: Path, path: str) -> None:
    with pytest.raises(DatasetError, match="The dataset was not found"):
        DatasetRoots([root]).find(path)


@given(path=st.text(st.characters(codec="utf-8")))
def test_no_path_is_answered_with_anything_but_a_file_inside_or_a_dataset_error(
    tmp_path_factory: pytest.TempPathFactory, path: str
) -> None:
    root = tmp_path_factory.getbasetemp()
    try:
        found = DatasetRoots([root]).find(path)
    except DatasetError:
        return
    assert found.is_file()
    assert found.is_relative_to(root)


@pytest.mark.parametrize("make", [_fifo, _socket, Path.mkdir])
def test_the_open_of_something_else_is_an_error_and_waits_for_nobody(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    make(tmp_path / "d")
    before = open_descriptors()
    with pytest.raises(DatasetError, match="expected a readable dataset at"):
        DatasetFile(tmp_path / "d")
    assert open_descriptors() == before


def test_a_file_that_was_replaced_is_read_as_it_was_opened(root: Path) -> None:
    path = root / "ground_truth" / "data.jsonl"
    dataset = DatasetFile(path)
    (root / "new").write_bytes(b"{}\n")
    (root / "new").replace(path)
    assert list(dataset.lines()) == LINES.splitlines()
    path.unlink()
    assert b"".join(dataset.chunks()) == LINES
    dataset.close()


@pytest.mark.parametrize(
    "change",
    [LINES.replace(b"2", b"3"), LINES + b"{}\n", LINES[:-5], b""],
    ids=["edited", "longer", "shorter", "empty"],
)
@pytest.mark.parametrize("read", [DatasetFile.lines, DatasetFile.chunks])
def test_a_file_that_was_written_into_is_noticed_by_whoever_reads_it_to_the_end(
    root: Path, change: bytes, read: Callable[[DatasetFile], object]
) -> None:
    path = root / "ground_truth" / "data.jsonl"
    dataset = DatasetFile(path)
    path.write_bytes(change)
    with pytest.raises(DatasetMismatchError) as caught:
        list(read(dataset))  # type: ignore[call-overload]  # both return an iterator of bytes
    assert str(caught.value) == (
        f"The dataset changed during the run: expected SHA-256 {digest(LINES)}, got "
        f"{digest(change)}"
    )
    dataset.close()


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"", []),
        (b"\n", [b""]),
        (b"a", [b"a"]),
        (b"a\n", [b"a"]),
        (b"a\nb", [b"a", b"b"]),
        (b"a\n\nb\n", [b"a", b"", b"b"]),
        (b"a\r\nb\x0bc\xe2\x80\xa8d\n", [b"a\r", b"b\x0bc\xe2\x80\xa8d"]),
    ],
)
def test_a_line_ends_with_a_line_feed_or_the_file(
    tmp_path: Path, data: bytes, lines: list[bytes]
) -> None:
    (tmp_path / "d").write_bytes(data)
    dataset = DatasetFile(tmp_path / "d")
    assert list(dataset.lines()) == lines
    assert dataset.lines_total == len(lines)
    assert dataset.sha256 == digest(data)
    dataset.close()


@given(data=st.binary(max_size=60), piece=st.integers(1, 7))
def test_lines_are_the_same_however_the_file_is_cut_into_pieces(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, piece: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "pieces"
    data = data.replace(b"\x00", b"\n")
    path.write_bytes(data)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(datasets, "_CHUNK", piece)
        dataset = DatasetFile(path)
        expected = data.split(b"\n")
        assert list(dataset.lines()) == (expected if expected[-1] else expected[:-1])
        assert dataset.lines_total == len(list(dataset.lines()))
        assert b"".join(dataset.chunks()) == data
        dataset.close()


def test_several_readers_share_one_open_file(root: Path) -> None:
    dataset = DatasetFile(root / "ground_truth" / "data.jsonl")
    assert list(zip(dataset.lines(), dataset.lines(), strict=True)) == [
        (line, line) for line in LINES.splitlines()
    ]
    dataset.close()


@pytest.mark.parametrize("size", [MAX_LINE_BYTES + 1, 64 * MAX_LINE_BYTES])
def test_a_line_without_an_end_is_refused_at_the_limit_not_read_to_its_end(
    tmp_path: Path, size: int
) -> None:
    path = tmp_path / "huge"
    with path.open("wb") as handle:
        handle.truncate(size)
    dataset = DatasetFile(path)
    with pytest.raises(DatasetError, match=f"expected lines of at most {MAX_LINE_BYTES} bytes"):
        next(dataset.lines())
    dataset.close()


def test_a_line_of_the_longest_length_is_read(tmp_path: Path) -> None:
    longest = b"x" * MAX_LINE_BYTES
    (tmp_path / "d").write_bytes(longest + b"\n" + b"y")
    dataset = DatasetFile(tmp_path / "d")
    assert list(dataset.lines()) == [longest, b"y"]
    dataset.close()
