"""The evidence bundle: all or nothing on the disk, and checkable with coreutils alone."""

import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID, uuid5

import pytest
import rfc8785

from theatre.engine.canonical_json import JsonObject, canonical_line
from theatre.engine.errors import AlreadySealedError, BundleError
from theatre.engine.evidence_bundle import (
    PART_SIZE,
    EvidenceBundleBuilder,
    EvidenceBundleManifest,
    bundle_id,
    bundle_name,
    file_stamps,
)

THEATRE_ID = "0b6f3f0e-6f4a-4c39-9c0e-5d5b8f2f7a11"
NAME = f"evidence_bundle_{THEATRE_ID}"
DOCUMENTS: dict[str, JsonObject] = {
    "template.json": {"theatre_id": "product_small_v1", "share": 0.1},
    "commitment_receipt.json": {"commitment_hash": "ab" * 32},
    "scores/data_audit.json": {"episodes": 0},
    "scores/baselines.json": {"episodes": 0},
    "scores/aggregate.json": {"results_hash": "cd" * 32, "composite_score": None},
    "resolution.json": {"status": "completed", "steps": []},
    "tier.json": {"facts": {}},
}
LINES = {
    "coin.txt": [b"ab" * 32 + b"\n"],
    "ground_truth/dataset.jsonl": [b'{"episode_id":  "kept as it was"}\r\n', b"no last line feed"],
    "scores/per_episode.jsonl": [b'{"seq":1}\n', b'{"seq":2}\n'],
    "audit_trail.jsonl": [b'{"seq":0}\n'],
}


def write_all(builder: EvidenceBundleBuilder, episodes: int = 2) -> None:
    """Write every minimum file."""
    for path, document in DOCUMENTS.items():
        builder.write_document(path, document)
    for path, lines in LINES.items():
        builder.write_lines(path, lines)
    with builder.invocation_writer(episodes) as writer:
        for seq in range(1, episodes + 1):
            writer.write(seq, canonical_line({"seq": seq, "calls": []}))


def finish(builder: EvidenceBundleBuilder) -> str:
    """Write sums, certificate and manifest; return the bundle hash."""
    bundle_hash = builder.write_sums()
    builder.write_document("certificate.json", {"evidence_bundle_hash": bundle_hash})
    builder.write_manifest(
        EvidenceBundleManifest(
            theatre_id=THEATRE_ID,
            commitment_hash="ab" * 32,
            bundle_hash=bundle_hash,
            file_inventory=builder.file_inventory,
            created_at="2026-11-21T12:00:00.000000Z",
            construct_version="c0ffee0",
            scorer_version="exact_match@1",
            methodology_version="1.0.0",
        )
    )
    return bundle_hash


def sealed(folder: Path, episodes: int = 2) -> tuple[Path, str]:
    with EvidenceBundleBuilder(THEATRE_ID, folder) as builder:
        write_all(builder, episodes)
        bundle_hash = finish(builder)
        return builder.seal(file_stamps(builder.draft)), bundle_hash


def files_in(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.fixture
def draft(tmp_path: Path) -> Iterator[EvidenceBundleBuilder]:
    with EvidenceBundleBuilder(THEATRE_ID, tmp_path) as builder:
        yield builder


def test_the_sums_hold_under_sha256sum_itself(tmp_path: Path) -> None:
    program = shutil.which("sha256sum")
    if program is None:
        pytest.skip("this machine has no sha256sum")
    bundle, bundle_hash = sealed(tmp_path, episodes=3)
    checked = subprocess.run(
        [program, "--strict", "-c", "SHA256SUMS"], cwd=bundle, capture_output=True, check=True
    )
    named = sorted(line.partition(b": ")[0].decode() for line in checked.stdout.splitlines())
    assert named == sorted(
        [*DOCUMENTS, *LINES, *(f"invocations/episode_{n:06d}.json" for n in (1, 2, 3))]
    )
    assert checked.stderr == b""
    own = subprocess.run([program, "SHA256SUMS"], cwd=bundle, capture_output=True, check=True)
    assert own.stdout == f"{bundle_hash}  SHA256SUMS\n".encode()


def test_sums_are_sorted_by_the_bytes_of_the_path_and_leave_three_files_out(tmp_path: Path) -> None:
    bundle, bundle_hash = sealed(tmp_path)
    files = files_in(bundle)
    summed = sorted(set(files) - {"manifest.json", "SHA256SUMS", "certificate.json"})
    assert files["SHA256SUMS"] == "".join(
        f"{digest(files[path])}  {path}\n" for path in summed
    ).encode("ascii")
    assert bundle_hash == digest(files["SHA256SUMS"])


@pytest.mark.parametrize("path", ["manifest.json", "certificate.json"])
def test_what_names_the_bundle_is_never_summed_whenever_it_was_written(
    draft: EvidenceBundleBuilder, tmp_path: Path, path: str
) -> None:
    draft.write_document(path, {})
    draft.write_document("tier.json", {})
    draft.write_sums()
    sums = (tmp_path / f".{NAME}.partial" / "SHA256SUMS").read_text(encoding="ascii")
    assert sums == f"{digest(b'{}' + bytes([10]))}  tier.json\n"


def test_paths_are_sorted_as_bytes_not_as_names_with_folders(tmp_path: Path) -> None:
    with EvidenceBundleBuilder(THEATRE_ID, tmp_path) as builder:
        for path in ("scores/a.json", "scores.json", "Scores.json", "scores-2.json"):
            builder.write_lines(path, [b""])
        builder.write_sums()
        lines = (tmp_path / f".{NAME}.partial" / "SHA256SUMS").read_bytes().splitlines()
    assert [line[66:].decode() for line in lines] == [
        "Scores.json",
        "scores-2.json",
        "scores.json",
        "scores/a.json",
    ]


def test_documents_are_canonical_with_a_line_feed_and_lines_are_kept_byte_for_byte(
    tmp_path: Path,
) -> None:
    files = files_in(sealed(tmp_path)[0])
    for path, document in DOCUMENTS.items():
        assert files[path] == rfc8785.dumps(document) + b"\n"
    for path, lines in LINES.items():
        assert files[path] == b"".join(lines)
    assert files["invocations/episode_000002.json"] == b'{"calls":[],"seq":2}\n'


def test_the_manifest_can_be_derived_from_the_other_files(tmp_path: Path) -> None:
    bundle, bundle_hash = sealed(tmp_path)
    files = files_in(bundle)
    manifest = files.pop("manifest.json")
    assert manifest == rfc8785.dumps(json.loads(manifest)) + b"\n"
    assert json.loads(manifest) == {
        "bundle_id": str(uuid5(UUID(THEATRE_ID), bundle_hash)),
        "theatre_id": THEATRE_ID,
        "commitment_hash": "ab" * 32,
        "bundle_hash": bundle_hash,
        "file_inventory": [
            {"path": path, "size_bytes": len(files[path]), "sha256": digest(files[path])}
            for path in sorted(files)
        ],
        "created_at": "2026-11-21T12:00:00.000000Z",
        "methodology_version": "1.0.0",
        "construct_version": "c0ffee0",
        "scorer_version": "exact_match@1",
    }


def test_names_and_ids_are_derived() -> None:
    assert bundle_name(THEATRE_ID) == NAME
    assert bundle_id(THEATRE_ID, "ef" * 32) == str(uuid5(UUID(THEATRE_ID), "ef" * 32))


def test_the_same_content_gives_the_same_bundle_in_any_folder(tmp_path: Path) -> None:
    first, _ = sealed(tmp_path / "one")
    second, _ = sealed(tmp_path / "two" / "deeper")
    assert files_in(first) == files_in(second)


def test_a_bundle_appears_only_when_it_is_sealed(tmp_path: Path) -> None:
    with EvidenceBundleBuilder(THEATRE_ID, tmp_path) as builder:
        write_all(builder)
        finish(builder)
        assert [path.name for path in tmp_path.iterdir()] == [f".{NAME}.partial"]
        assert builder.seal(file_stamps(builder.draft)) == tmp_path / NAME
        assert [path.name for path in tmp_path.iterdir()] == [NAME]
    assert [path.name for path in tmp_path.iterdir()] == [NAME]


@pytest.mark.parametrize("interruption", [LookupError, KeyboardInterrupt, GeneratorExit])
def test_an_interruption_leaves_nothing_behind(
    tmp_path: Path, interruption: type[BaseException]
) -> None:
    def interrupted() -> None:
        with EvidenceBundleBuilder(THEATRE_ID, tmp_path) as builder:
            write_all(builder)
            raise interruption

    with pytest.raises(interruption):
        interrupted()
    assert list(tmp_path.iterdir()) == []


def test_an_interruption_in_the_middle_of_a_part_leaves_nothing_behind(tmp_path: Path) -> None:
    def interrupted() -> None:
        with (
            EvidenceBundleBuilder(THEATRE_ID, tmp_path) as builder,
            builder.invocation_writer(PART_SIZE + 1) as writer,
        ):
            writer.write(1, b'{"seq":1}\n')
            raise LookupError

    with pytest.raises(LookupError):
        interrupted()
    assert list(tmp_path.iterdir()) == []


def test_a_bundle_that_was_not_sealed_is_not_kept(tmp_path: Path) -> None:
    with EvidenceBundleBuilder(THEATRE_ID, tmp_path) as builder:
        write_all(builder)
    assert list(tmp_path.iterdir()) == []


def test_what_an_earlier_crash_left_is_cleared(tmp_path: Path) -> None:
    leftover = tmp_path / f".{NAME}.partial"
    (leftover / "invocations").mkdir(parents=True)
    (leftover / "invocations" / "episode_000009.json").write_bytes(b"torn")
    bundle, _ = sealed(tmp_path)
    assert sorted(files_in(bundle)) == sorted(
        [
            *(*DOCUMENTS, *LINES, "SHA256SUMS", "certificate.json", "manifest.json"),
            *("invocations/episode_000001.json", "invocations/episode_000002.json"),
        ]
    )
    assert [path.name for path in tmp_path.iterdir()] == [NAME]


def test_a_sealed_bundle_is_never_replaced(tmp_path: Path) -> None:
    bundle, _ = sealed(tmp_path)
    before = files_in(bundle)
    with pytest.raises(AlreadySealedError, match="got one: another attempt sealed it"):
        sealed(tmp_path, episodes=3)
    assert files_in(bundle) == before
    assert [path.name for path in tmp_path.iterdir()] == [NAME]


def test_a_file_is_written_once(draft: EvidenceBundleBuilder) -> None:
    draft.write_document("tier.json", {})
    with pytest.raises(BundleError) as caught:
        draft.write_document("tier.json", {})
    assert str(caught.value) == "expected to write tier.json once, got a second write"
    with draft.open_file("scores/per_episode.jsonl") as lines:
        lines.write(b"first\n")
        with pytest.raises(BundleError, match="got a second write"):
            draft.write_lines("scores/per_episode.jsonl", [b"second\n"])


@pytest.mark.parametrize(
    "path",
    [
        "../outside.json",
        "ground_truth/../../outside.jsonl",
        "ground_truth/..",
        "/etc/outside",
        "./template.json",
        "scores//aggregate.json",
        "scores/",
        "",
        ".hidden",
        "ground_truth/.hidden",
        "with space.json",
        "with\nline.json",
        "with\\backslash.json",
        "with\0nul",
        "ünicode.json",
        "trailing.json\n",
    ],
)
def test_a_path_that_is_not_plain_is_refused_before_anything_is_written(
    tmp_path: Path, path: str
) -> None:
    home = tmp_path / "home"
    with EvidenceBundleBuilder(THEATRE_ID, home) as builder:
        with pytest.raises(BundleError, match="expected a plain path inside the bundle, got "):
            builder.write_lines(path, [b"content"])
        assert files_in(tmp_path) == {}


def test_the_minimum_files_are_asked_for_by_name(draft: EvidenceBundleBuilder) -> None:
    assert draft.validate_minimum_files() == [
        "template.json",
        "commitment_receipt.json",
        "coin.txt",
        "ground_truth/dataset.jsonl",
        "scores/per_episode.jsonl",
        "scores/aggregate.json",
        "scores/data_audit.json",
        "scores/baselines.json",
        "resolution.json",
        "tier.json",
        "audit_trail.jsonl",
        "invocations/*",
    ]
    for path in DOCUMENTS:
        draft.write_document(path, {})
    assert draft.validate_minimum_files() == [*LINES, "invocations/*"]
    for path in LINES:
        draft.write_lines(path, [])
    assert draft.validate_minimum_files() == ["invocations/*"]
    with draft.invocation_writer(1) as writer:
        writer.write(1, b"{}\n")
    assert draft.validate_minimum_files() == []


def test_a_file_that_failed_halfway_does_not_count_as_written(draft: EvidenceBundleBuilder) -> None:
    def lines() -> Iterator[bytes]:
        yield b"half\n"
        raise LookupError

    with pytest.raises(LookupError):
        draft.write_lines("audit_trail.jsonl", lines())
    assert "audit_trail.jsonl" in draft.validate_minimum_files()


@pytest.mark.parametrize("episodes", [1, PART_SIZE])
def test_up_to_a_thousand_episodes_each_has_a_file_of_its_own(
    tmp_path: Path, episodes: int
) -> None:
    with EvidenceBundleBuilder(THEATRE_ID, tmp_path) as builder:
        with builder.invocation_writer(episodes) as writer:
            for seq in range(1, episodes + 1):
                writer.write(seq, b'{"seq":%d}\n' % seq)
        files = files_in(tmp_path / f".{NAME}.partial")
    assert files == {
        f"invocations/episode_{seq:06d}.json": f'{{"seq":{seq}}}\n'.encode()
        for seq in range(1, episodes + 1)
    }


@pytest.mark.parametrize(
    ("recorded", "parts"),
    [(1001, [1000, 1]), (2000, [1000, 1000]), (2501, [1000, 1000, 501]), (3, [3])],
)
def test_past_a_thousand_episodes_records_go_into_parts_of_a_thousand_lines(
    tmp_path: Path, recorded: int, parts: list[int]
) -> None:
    total = max(recorded, PART_SIZE + 1)
    with EvidenceBundleBuilder(THEATRE_ID, tmp_path) as builder:
        with builder.invocation_writer(total) as writer:
            for seq in range(1, recorded + 1):
                writer.write(seq, b'{"seq":%d}\n' % seq)
        files = files_in(tmp_path / f".{NAME}.partial")
        builder.write_sums()
    assert sorted(files) == [f"invocations/part-{n:05d}.jsonl" for n in range(1, len(parts) + 1)]
    assert [files[path].count(b"\n") for path in sorted(files)] == parts
    joined = b"".join(files[path] for path in sorted(files))
    assert joined == b"".join(f'{{"seq":{seq}}}\n'.encode() for seq in range(1, recorded + 1))


def test_a_draft_that_cannot_be_made_is_a_bundle_error(tmp_path: Path) -> None:
    (tmp_path / "home").write_bytes(b"a file, not a folder")
    with pytest.raises(BundleError, match="expected to make room for the bundle, got "):
        EvidenceBundleBuilder(THEATRE_ID, tmp_path / "home").__enter__()


def test_a_link_in_the_place_of_the_draft_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "precious").write_bytes(b"kept")
    (tmp_path / f".{NAME}.partial").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(BundleError, match="expected to make room for the bundle"):
        sealed(tmp_path)
    assert files_in(tmp_path / "elsewhere") == {"precious": b"kept"}


# The limit on the size of a file refuses writes as a full disk does, without root.
FULL_DISK = """
import resource, sys
from pathlib import Path
from theatre.engine.errors import BundleUnwrittenError
from theatre.engine.evidence_bundle import EvidenceBundleBuilder, file_stamps

kind, folder = sys.argv[1], Path(sys.argv[2])
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    with EvidenceBundleBuilder("0b6f3f0e-6f4a-4c39-9c0e-5d5b8f2f7a11", folder) as builder:
        builder.write_document("template.json", {"theatre_id": "product_small_v1"})
        if kind == "document":
            builder.write_document("tier.json", {"text": "x" * 200_000})
        elif kind == "stream":
            builder.write_lines("audit_trail.jsonl", (b"x" * 99 + b"\\n" for _ in range(5000)))
        else:
            with builder.invocation_writer(1001) as writer:
                for seq in range(1, 1002):
                    writer.write(seq, b"x" * 200)
        builder.seal(file_stamps(builder.draft))
except BundleUnwrittenError as error:
    print(error, end="")
"""


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        ("document", "tier.json"),
        ("stream", "audit_trail.jsonl"),
        ("parts", "invocations/part-00001.jsonl"),
    ],
)
def test_a_full_disk_is_a_bundle_error_and_leaves_nothing_visible(
    tmp_path: Path, kind: str, path: str
) -> None:
    home = tmp_path / "home"
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK, kind, str(home)],
        capture_output=True,
        check=True,
        text=True,
    )
    assert (done.stdout, done.stderr) == (
        (
            f"expected to write {path}, got File too large: free or mend the disk and run again; "
            "nothing half-written is visible"
        ),
        "",
    )
    assert list(home.iterdir()) == []
