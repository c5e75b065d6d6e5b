"""What the version of a construct's program is; engine and construct kit compute the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from theatre.engine.canonical_json import canonical_bytes, sha256_hex


def program_version(argv: Sequence[str], files: Mapping[str, str]) -> str:
    """Return SHA-256 over the canonical bytes of argv and files, 64 hex digits.

    `argv` is as written, its placeholders unfilled; `files` is POSIX path → SHA-256.
    """
    return sha256_hex(canonical_bytes({"argv": list(argv), "files": dict(files)}))


def served_argv(target: str) -> tuple[str, ...]:
    """Return the argv, as written, that serves the callable `target` (`module:name`) on stdin."""
    # -P: without it the program's working folder would come before the installed packages.
    kit = ("{python}", "-P", "-m", "theatre.construct_kit", "--stdio")
    return (*kit, "--folder", "{folder}", target)
