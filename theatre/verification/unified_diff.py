"""Reads unified diffs as git and GitHub write them: which files, and which lines of them."""

import re
from dataclasses import dataclass, field
from enum import StrEnum

_HUNK = re.compile(r"@@ -\d{1,9}(?:,(\d{1,9}))? \+\d{1,9}(?:,(\d{1,9}))? @@(.*)")
_ESCAPE = re.compile(r"\\([0-7]{3}|.)")
_PLAIN_ESCAPES = {"a": 7, "b": 8, "t": 9, "n": 10, "v": 11, "f": 12, "r": 13}


class FileOperation(StrEnum):
    """What a change does to a file."""

    ADDED = "added"
    DELETED = "deleted"
    RENAMED = "renamed"
    MODIFIED = "modified"


@dataclass(slots=True, kw_only=True)
class _Draft:
    old_path: str
    path: str
    operation: FileOperation = FileOperation.MODIFIED
    is_binary: bool = False
    added: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    context: list[str] = field(default_factory=list)

    def frozen(self) -> "FileChange":
        return FileChange(
            path=self.path,
            old_path=self.old_path,
            operation=self.operation,
            is_binary=self.is_binary,
            added=tuple(self.added),
            removed=tuple(self.removed),
            context=tuple(self.context),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChange:
    """One file of a diff; lines are without their marks, `context` with the hunks' headings."""

    path: str
    old_path: str
    operation: FileOperation
    is_binary: bool
    added: tuple[str, ...]
    removed: tuple[str, ...]
    context: tuple[str, ...]


def read_diff(text: str) -> tuple[FileChange, ...]:
    """Return the files of a unified diff in order.

    Never raises: lines that belong to no file are passed over, and a diff that ends in the middle
    gives what it holds. In time linear in its length.
    """
    files: list[_Draft] = []
    old_left = new_left = 0
    for line in text.split("\n"):
        if files and (old_left > 0 or new_left > 0) and line[:1] in {"+", "-", " ", ""}:
            mark = line[:1] or " "
            old_left -= mark != "+"
            new_left -= mark != "-"
            kept = {"+": files[-1].added, "-": files[-1].removed}.get(mark, files[-1].context)
            kept.append(line[1:])
            continue
        if line.startswith("diff --git "):
            old_path, path = _header_paths(line.removeprefix("diff --git "))
            files.append(_Draft(old_path=old_path, path=path))
            old_left = new_left = 0
        elif files and (hunk := _HUNK.fullmatch(line)):
            old_left, new_left = int(hunk[1] or 1), int(hunk[2] or 1)
            if hunk[3].strip():
                files[-1].context.append(hunk[3].strip())
        elif files:
            _read_heading(files[-1], line)
    return tuple(draft.frozen() for draft in files)


def _read_heading(draft: _Draft, line: str) -> None:
    if line.startswith("new file mode "):
        draft.operation = FileOperation.ADDED
    elif line.startswith("deleted file mode "):
        draft.operation = FileOperation.DELETED
    elif line.startswith("rename from "):
        draft.operation = FileOperation.RENAMED
        draft.old_path = _unquote(line.removeprefix("rename from "))
    elif line.startswith("rename to "):
        draft.path = _unquote(line.removeprefix("rename to "))
    elif line.startswith(("Binary files ", "GIT binary patch")):
        draft.is_binary = True


def _header_paths(names: str) -> tuple[str, str]:
    """Split `a/old b/new`; either may be quoted. Where nothing is renamed, both are the same."""
    if names.endswith('"'):
        split = names.find(' "b/')
        old = names[:split] if split >= 0 else names
        new = names[split + 1 :] if split >= 0 else names
        return _side(old), _side(new)
    half = len(names) // 2
    if names[half : half + 1] == " " and names[2:half] == names[half + 3 :]:
        return names[2:half], names[half + 3 :]
    old, _, new = names.partition(" b/")
    return _side(old), new


def _side(name: str) -> str:
    return _unquote(name)[2:]


def _unquote(name: str) -> str:
    if not (name.startswith('"') and name.endswith('"')):
        return name

    def character(match: re.Match[str]) -> str:
        code = match[1]
        if len(code) > 1:
            return chr(int(code, 8))
        return chr(_PLAIN_ESCAPES[code]) if code in _PLAIN_ESCAPES else code

    return _ESCAPE.sub(character, name[1:-1])
