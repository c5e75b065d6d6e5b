"""`echelon verify` over odd changes, from the clone to the checked bundle."""

import os
from pathlib import Path
from typing import Any

from tests.theatre.verification.git_history import Commit, repository
from tests.theatre.verification.verify_command import command
from theatre.engine.canonical_json import parse_object

# As records, 10,000 files are always made (test_local_history.py).
MANY = 10_000 if os.environ.get("ECHELON_SOAK") == "1" else 1_000
BIG = (b"x" * 999 + b"\n") * 3_100
ODD = [
    Commit(message=b"Begin", files={b"a.py": b"def one(): pass\n", b"old.txt": b"text\n" * 20}),
    Commit(message=b"Three megabytes", files={b"big.py": BIG}),
    Commit(message=b"A picture", files={b"logo.png": b"\x89PNG\r\n\x1a\n\x00\x01\x02\xff"}),
    Commit(message=b"Only a name", renames={b"old.txt": b"new.txt"}),
    Commit(message=b"", files={b"a.py": b"def two(): pass\n"}),
    Commit(message=b"Gr\xfc\xdfe \x00"[:-1], files={b"l\xe4nge.txt": b"caf\xe9 \xff\xfe\n"}),
    Commit(
        message=b"Many files",
        files={b"many/f%05d.txt" % n: b"%d\n" % n for n in range(MANY)},
    ),
    Commit(message=b"A branch", files={b"b.py": b"def branch(): pass\n"}, parents=[0]),
    Commit(
        message=b"Merge it",
        files={b"b.py": b"def branch(): pass\n", b"c.py": b"def both(): pass\n"},
        parents=[6, 7],
    ),
]


def test_no_change_is_too_odd_for_a_run(tmp_path: Path) -> None:
    repository(tmp_path / "repo", ODD)
    answer = command(
        tmp_path,
        *("verify", "--repo", tmp_path / "repo", "--history", "first-parent"),
        *("--construct", "construct:change_extractive", "--min-replays", "8"),
        *("--output", tmp_path / "kept", "--json", "--quiet"),
    )
    assert (answer.code, answer.document["check"]["verdict"]) == (0, "valid, logged")
    assert answer.document["episode_counts"]["scored"] == 8
    lines = (tmp_path / "kept" / "ground_truth.jsonl").read_bytes().splitlines()
    records: list[Any] = [parse_object(line) for line in lines]
    assert [record["title"] for record in records] == [
        *("Begin", "Three megabytes", "A picture", "Only a name", ""),
        *("Gr\\xfc\\xdfe", "Many files", "Merge it"),
    ]
    assert len(records[1]["diff_content"]) > 3_000_000
    assert records[1]["omitted"]["diff_bytes"] == 0
    assert "Binary files" in records[2]["diff_content"]
    assert records[3]["files_changed"] == ["new.txt"]
    assert records[5]["files_changed"] == ["l\\xe4nge.txt"]
    assert len(records[6]["files_changed"]) == MANY
    assert records[7]["files_changed"] == ["b.py", "c.py"]
