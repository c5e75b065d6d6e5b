"""What comes out of an archive is files of a bundle, where they were asked for."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from theatre.engine.errors import BundleError
from theatre.files.published_bundle import unpack_bundle


def packed(path: Path, *entries: tuple[tarfile.TarInfo, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for entry, content in entries:
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return path


def test_the_files_come_out_without_their_folder(tmp_path: Path) -> None:
    # Several times what is copied at once.
    content = b"0123456789" * 100_000
    entry = tarfile.TarInfo("a_bundle/ground_truth/dataset.jsonl")
    archive = packed(tmp_path / "bundle.tar.gz", (entry, content))
    unpack_bundle(archive, tmp_path / "of a path")
    unpack_bundle(io.BytesIO(archive.read_bytes()), tmp_path / "of bytes")
    for folder in ("of a path", "of bytes"):
        assert (tmp_path / folder / "ground_truth" / "dataset.jsonl").read_bytes() == content


@pytest.mark.parametrize("name", ["../outside", "/outside", "bundle", "bundle/../../outside"])
def test_an_archive_that_would_write_elsewhere_is_refused(tmp_path: Path, name: str) -> None:
    archive = packed(tmp_path / "bundle.tar.gz", (tarfile.TarInfo(name), b""))
    with pytest.raises(BundleError, match="expected the files of a bundle, got "):
        unpack_bundle(archive, tmp_path / "folder" / "target")
    assert [path.name for path in tmp_path.rglob("*")] == ["bundle.tar.gz"]


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE])
def test_an_archive_with_more_than_files_is_refused(tmp_path: Path, kind: bytes) -> None:
    entry = tarfile.TarInfo("bundle/manifest.json")
    entry.type, entry.linkname = kind, "/etc/passwd"
    archive = packed(tmp_path / "bundle.tar.gz", (entry, b""))
    with pytest.raises(BundleError, match=r"got 'bundle/manifest\.json'"):
        unpack_bundle(archive, tmp_path / "target")
    assert not (tmp_path / "target").exists()


def test_what_is_no_archive_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="expected the archive of a bundle, got "):
        unpack_bundle(io.BytesIO(b"no archive"), tmp_path / "target")
    archive = packed(tmp_path / "cut.tar.gz", (tarfile.TarInfo("a/b"), bytes(100_000)))
    with pytest.raises(BundleError, match="expected the archive of a bundle, got "):
        unpack_bundle(io.BytesIO(archive.read_bytes()[:-30]), tmp_path / "target")
