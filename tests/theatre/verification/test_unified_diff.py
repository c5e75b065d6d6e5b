"""Reading diffs: git's headings, quoted names, cut ends, and lines that look like headings."""

from hypothesis import given
from hypothesis import strategies as st

from theatre.verification.unified_diff import FileChange, FileOperation, read_diff

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
