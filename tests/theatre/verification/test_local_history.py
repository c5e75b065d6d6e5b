"""A local clone as ground truth: plain commits, merges, and what real histories hold."""

import hashlib
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.theatre.verification.git_history import Commit, git, repository
from theatre.engine.canonical_json import canonical_line, parse_object
from theatre.engine.models import MAX_EPISODE_BYTES, read_episodes
from theatre.verification.errors import RepositoryError
from theatre.verification.local_history import History, Selection, clone_folder, read_history
from theatre.verification.records import (
    MAX_DIFF_BYTES,
    GroundTruthRecord,
    Omitted,
    dataset_lines,
    ground_truth_lines,
)

TWO = (
    Commit(message=b"Begin\n\nWith one file.\n", files={b"a.py": b"def one():\n    return 1\n"}),
    Commit(message=b"Say two", files={b"a.py": b"def one():\n    return 2\n"}, author=b"Grace"),
)


CHANGED = """\
--- a/a.py
+++ b/a.py
@@ -1,2 +1,2 @@
 def one():
-    return 1
+    return 2
"""


def read(folder: Path, **selection: object) -> list[GroundTruthRecord]:
    return list(read_history(folder, Selection(**selection)))  # type: ignore[arg-type]  # by name


def only(folder: Path, *commits: Commit) -> GroundTruthRecord:
    """The record of the last of some commits."""
    return read(repository(folder, commits))[-1]


def test_a_commit_becomes_a_record_with_its_diff_against_the_one_before(tmp_path: Path) -> None:
    folder = repository(tmp_path, TWO)
    first, second = read(folder)
    blobs = [git(folder, "rev-parse", f"{commit}:a.py") for commit in ("main~1", "main")]
    assert second == GroundTruthRecord(
        id=git(folder, "rev-parse", "main"),
        commit=git(folder, "rev-parse", "main"),
        title="Say two",
        description="",
        diff_content=f"diff --git a/a.py b/a.py\nindex {'..'.join(blobs)} 100644\n{CHANGED}",
        files_changed=("a.py",),
        timestamp=datetime(2023, 11, 15, 22, 13, 20, tzinfo=UTC),
        labels=(),
        author="Grace",
    )
    assert (first.title, first.description) == ("Begin", "With one file.")
    assert "new file mode 100644" in first.diff_content


def test_the_same_history_gives_the_same_bytes_whatever_the_user_has_configured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blank = Commit(message=b"Space", files={b"na\xc3\xafve.py": b"\n\na = 1\n\n\n"})
    again = Commit(message=b"More", files={b"na\xc3\xafve.py": b"\n\na = 2\n\n\n"})
    folder = repository(tmp_path / "clone", [*TWO, RENAMED, blank, again])
    plain = ground_truth_lines(read(folder))
    settings = tmp_path / ".gitconfig"
    settings.write_text(
        "[diff]\n suppressBlankEmpty = true\n noprefix = true\n renames = false\n"
        " algorithm = patience\n context = 0\n"
        " external = false\n mnemonicPrefix = true\n[core]\n quotePath = false\n abbrev = 4\n"
        f" attributesFile = {tmp_path / 'attributes'}\n"
        "[color]\n ui = always\n[log]\n showSignature = true\n",
        encoding="utf-8",
    )
    (tmp_path / "attributes").write_text("*.py binary\n", encoding="utf-8")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("GIT_EXTERNAL_DIFF", "false")
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    assert ground_truth_lines(read(folder)) == plain


RENAMED = Commit(message=b"Move it", renames={b"a.py": b"lib/b.py"})


def test_a_change_that_only_renames_has_the_new_path_and_no_lines(tmp_path: Path) -> None:
    record = only(tmp_path, *TWO, RENAMED)
    assert record.files_changed == ("lib/b.py",)
    assert record.diff_content == (
        "diff --git a/a.py b/lib/b.py\n"
        "similarity index 100%\nrename from a.py\nrename to lib/b.py\n"
    )


def test_a_binary_file_is_named_and_not_shown(tmp_path: Path) -> None:
    record = only(tmp_path, Commit(message=b"Picture", files={b"p.png": b"\x89PNG\0\xff" * 50}))
    assert record.files_changed == ("p.png",)
    assert record.diff_content.endswith("Binary files /dev/null and b/p.png differ\n")


def test_a_commit_without_message_has_an_empty_title(tmp_path: Path) -> None:
    record = only(tmp_path, Commit(message=b"", files={b"a": b"1\n"}))
    assert (record.title, record.description) == ("", "")


def test_bytes_that_are_no_utf8_stand_as_escapes(tmp_path: Path) -> None:
    change = Commit(
        message=b"caf\xe9",
        files={b"na\xefve.txt": b"\xfc\xfe\n", b'odd "name"\n.txt': b"x\n"},
        author=b"Andr\xe9",
    )
    record = only(tmp_path, change)
    assert (record.title, record.author) == ("caf\\xe9", "Andr\\xe9")
    assert record.files_changed == ("na\\xefve.txt", 'odd "name"\n.txt')
    assert "+\\xfc\\xfe\n" in record.diff_content
    assert parse_object(canonical_line(record.as_document()))["title"] == "caf\\xe9"


def test_a_diff_of_three_megabytes_is_kept_whole_and_one_of_six_is_cut_after_a_line(
    tmp_path: Path,
) -> None:
    line = b"x" * 59 + b"\n"
    three = Commit(message=b"Three", files={b"three.txt": line * 50_000})
    six = Commit(message=b"Six", files={b"six.txt": line * 100_000})
    whole, cut = read(repository(tmp_path, [three, six]))
    assert (len(whole.diff_content) > 3_000_000, whole.omitted) == (True, Omitted())
    assert cut.diff_content.endswith("+" + line.decode())
    assert MAX_DIFF_BYTES * 0.95 < len(cut.diff_content) < MAX_DIFF_BYTES
    head = cut.diff_content.index("+" + line.decode())
    assert len(cut.diff_content) + cut.omitted.diff_bytes == head + 61 * 100_000
    assert len(list(read_episodes(dataset_lines([whole, cut]).splitlines()))) == 2


def test_ten_thousand_files_in_one_change_are_all_counted(tmp_path: Path) -> None:
    names = [f"{'deep/' * 20}{at:05}.txt".encode() for at in range(10_000)]
    record = only(tmp_path, Commit(message=b"Many", files=dict.fromkeys(names, b"1\n")))
    assert len(record.files_changed) + record.omitted.files == 10_000
    assert record.omitted.files > 0
    (line,) = dataset_lines([record]).splitlines()
    assert len(line) < MAX_EPISODE_BYTES


def merged(folder: Path) -> Path:
    """A branch of one commit, merged after another one on main."""
    base = Commit(message=b"Base", files={b"a": b"1\n"})
    side = Commit(message=b"Side", files={b"side": b"s\n"}, parents=[0])
    main = Commit(message=b"Main", files={b"main": b"m\n", b"side": None}, parents=[0])
    merge = Commit(message=b"Merge side", files={b"side": b"s\n"}, parents=[2, 1])
    return repository(folder, [base, side, main, merge])


def test_a_merge_is_what_it_brings_to_the_branch(tmp_path: Path) -> None:
    (record,) = read(merged(tmp_path), history=History.MERGES)
    assert (record.title, record.files_changed) == ("Merge side", ("side",))


def test_which_commits_count_is_chosen(tmp_path: Path) -> None:
    folder = merged(tmp_path)
    titles = {history: [r.title for r in read(folder, history=history)] for history in History}
    assert titles == {
        History.PLAIN: ["Base", "Side", "Main"],
        History.FIRST_PARENT: ["Base", "Main", "Merge side"],
        History.MERGES: ["Merge side"],
    }


def test_range_dates_and_limit_narrow_a_history_to_its_newest(tmp_path: Path) -> None:
    folder = repository(
        tmp_path, [Commit(message=b"%d" % at, files={b"a": b"%d\n" % at}) for at in range(6)]
    )

    def titles(**selection: object) -> str:
        return "".join(record.title for record in read(folder, **selection))

    third = datetime(2023, 11, 16, 22, 13, 20, tzinfo=UTC)
    assert titles() == "012345"
    assert titles(limit=2) == "45"
    assert titles(commit_range="main~3..main~1") == "34"
    assert titles(since=third) == "2345"
    assert titles(until=third) == "012"
    assert titles(since=third, until=third) == "2"


def test_the_cut_end_of_a_shallow_clone_is_no_change(tmp_path: Path) -> None:
    origin = repository(tmp_path / "origin", [*TWO, RENAMED])
    git(tmp_path, "clone", "--quiet", "--bare", "--depth=2", f"file://{origin}", "shallow")
    assert [record.title for record in read(tmp_path / "shallow")] == ["Move it"]


def test_a_file_url_names_a_folder(tmp_path: Path) -> None:
    folder = tmp_path / "with space"
    folder.mkdir()
    assert clone_folder(folder.as_uri()) == folder
    assert clone_folder(str(folder)) == folder


@pytest.mark.parametrize("place", ["nowhere", "file:///nowhere/at/all", "https://example.org/a"])
def test_what_is_no_folder_is_refused(place: str) -> None:
    with pytest.raises(RepositoryError, match="expected the folder of a local clone"):
        clone_folder(place)


@pytest.mark.parametrize("commit_range", ["nothing", "--all", "-n1"])
def test_a_range_that_names_no_commits_is_refused(tmp_path: Path, commit_range: str) -> None:
    folder = repository(tmp_path, TWO)
    with pytest.raises(RepositoryError, match="expected"):
        read(folder, commit_range=commit_range)


def test_a_folder_without_history_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RepositoryError, match="not a git repository"):
        read(tmp_path)


def test_ground_truth_is_canonical_lines(tmp_path: Path) -> None:
    records = read(repository(tmp_path, TWO))
    lines = ground_truth_lines(records)
    assert lines == b"".join(canonical_line(parse_object(line)) for line in lines.splitlines())
    assert hashlib.sha256(lines).hexdigest() == GROUND_TRUTH_OF_TWO


GROUND_TRUTH_OF_TWO = "54e9bc7d4dab4529a4f0a2f6e6a90a3c050318e9db3973eff7465832ebbeab3b"
