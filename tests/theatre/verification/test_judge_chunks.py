"""A diff in parts, with headings alone shown twice; diffs with quoted names and cut ends."""

from hypothesis import given, settings
from hypothesis import strategies as st

from theatre.verification.judge.questions import diff_parts
from theatre.verification.unified_diff import FileChange, FileOperation, read_diff

HEADING = "diff --git a/{0} b/{0}\n--- a/{0}\n+++ b/{0}\n"


def file(name: str, *hunks: str) -> str:
    return HEADING.format(name) + "".join(f"@@ -1 +1 @@\n{hunk}" for hunk in hunks)


def test_files_that_fit_share_a_part_in_order() -> None:
    diff = file("a", "+1\n") + file("b", "+2\n")
    assert diff_parts(diff, characters=1000, parts=6).parts == (diff,)


def test_a_file_that_does_not_fit_beside_another_stays_whole() -> None:
    one, two = file("a", "+1\n" * 20), file("b", "+2\n" * 20)
    divided = diff_parts(one + two, characters=len(one) + 5, parts=6)
    assert (divided.parts, divided.omitted) == ((one, two), 0)


def test_a_large_file_is_cut_at_hunks_under_its_heading_each_time() -> None:
    hunks = [f"+{name * 300}\n" for name in "abc"]
    diff = file("f", *hunks)
    divided = diff_parts(diff, characters=400, parts=6)
    assert divided.parts == tuple(file("f", hunk) for hunk in hunks)
    assert divided.omitted == 0


def test_a_large_hunk_is_cut_at_lines() -> None:
    lines = [f"+{number:03}{'x' * 40}\n" for number in range(20)]
    divided = diff_parts(file("f", "".join(lines)), characters=400, parts=6)
    assert len(divided.parts) > 1
    assert all(part.startswith(HEADING.format("f")) for part in divided.parts)
    shown = "".join(part.removeprefix(HEADING.format("f")) for part in divided.parts)
    assert shown == "@@ -1 +1 @@\n" + "".join(lines)


def test_what_comes_after_the_last_part_is_counted() -> None:
    diff = "".join(file(name, "+x\n" * 100) for name in "abcdefgh")
    divided = diff_parts(diff, characters=len(diff) // 8, parts=6)
    assert (len(divided.parts), divided.omitted) == (6, len(diff) // 8 * 2)


def test_the_rest_of_an_endless_line_is_counted() -> None:
    diff = file("f", "+" + "x" * 5000 + "\n")
    divided = diff_parts(diff, characters=1000, parts=6)
    assert (max(map(len, divided.parts)), divided.omitted > 4000) == (1000, True)


def test_an_empty_diff_is_one_empty_part() -> None:
    divided = diff_parts("", characters=1000, parts=6)
    assert (divided.parts, divided.omitted) == (("",), 0)


LINES = st.sampled_from(["diff --git a/f b/f\n", "@@ -1 +1 @@\n", "+x\n", f"+{'y' * 700}\n", "z"])


@settings(deadline=None)
@given(st.lists(LINES, max_size=60).map("".join), st.integers(1, 6))
def test_no_part_is_too_long_and_every_character_is_shown_or_counted(diff: str, parts: int) -> None:
    whole = diff_parts(diff, characters=500, parts=10_000)
    divided = diff_parts(diff, characters=500, parts=parts)
    assert all(len(part) <= 500 for part in divided.parts)
    assert divided.parts == whole.parts[:parts]
    assert 0 <= whole.omitted <= divided.omitted <= len(diff)
    # Lines that fit a part are all there, each as often as in the diff or, in headings, more so.
    for line in ("+x\n", "@@ -1 +1 @@\n"):
        assert sum(part.count(line) for part in whole.parts) >= diff.count(line)


DIFF = """\
diff --git a/one two.py b/one two.py
index 11..22 100644
--- a/one two.py
+++ b/one two.py
@@ -1,3 +1,3 @@ class Old:
 kept
--- looks like a heading
+++ so does this
 also kept
@@ -9 +9 @@
-x
+y
\\ No newline at end of file
diff --git "a/t\\303\\244b\\t.txt" "b/t\\303\\244b\\t.txt"
new file mode 100644
--- /dev/null
+++ "b/t\\303\\244b\\t.txt"
@@ -0,0 +1 @@
+tab
diff --git a/old.md b/new.md
similarity index 100%
rename from old.md
rename to new.md
diff --git a/p.png b/p.png
deleted file mode 100644
Binary files a/p.png and /dev/null differ
"""


def test_every_file_of_a_diff_is_read_with_its_lines() -> None:
    modified, added, renamed, deleted = read_diff(DIFF)
    assert modified == FileChange(
        path="one two.py",
        old_path="one two.py",
        operation=FileOperation.MODIFIED,
        is_binary=False,
        added=("++ so does this", "y"),
        removed=("-- looks like a heading", "x"),
        context=("class Old:", "kept", "also kept"),
    )
    assert (added.operation, added.added) == (FileOperation.ADDED, ("tab",))
    assert added.path.endswith("b\t.txt")
    assert (renamed.operation, renamed.old_path, renamed.path) == (
        FileOperation.RENAMED,
        "old.md",
        "new.md",
    )
    assert (deleted.operation, deleted.is_binary) == (FileOperation.DELETED, True)


def test_a_diff_that_ends_in_a_hunk_gives_what_it_holds() -> None:
    (file,) = read_diff(DIFF[: DIFF.index("+++ so does")])
    assert (file.removed, file.added) == (("-- looks like a heading",), ())


@given(
    st.lists(
        st.sampled_from([*DIFF.splitlines(), "@@ -1,999999999 +1 @@", 'diff --git "', "rename to"])
        | st.text(max_size=20)
    )
)
def test_no_text_makes_it_raise(lines: list[str]) -> None:
    read_diff("\n".join(lines))
