"""One run of `echelon demo` for the whole suite, and what the demo leaves behind."""

import fcntl
import json
import os
import re
import subprocess
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

from backend.database.embedded.cluster import hold_lock
from tests.backend.embedded_home import EmbeddedHome, command_of, pids
from tests.theatre.echelon_process import ECHELON, environment

PATIENCE_SECONDS = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Demonstration:
    """`echelon demo --json` in a folder of its own: its pages, its document, what it left."""

    home: str
    code: int
    shown: str
    """What it printed of its pages."""
    pages: str
    """All of them, as `--verbose` prints them and as a file has them."""
    document: str
    left: list[str]
    """Running processes and files outside the home, once it had ended."""

    @property
    def told(self) -> dict[str, Any]:
        """Return the document."""
        return cast("dict[str, Any]", json.loads(self.document))

    @property
    def folder(self) -> Path:
        """Return the one folder of the demo."""
        return Path(self.home) / "demo"

    def page(self, number: int) -> str:
        """Return all of a page, from its heading to the next."""
        heading = re.compile(rf"^── +{number}/\d+ .*\n", re.MULTILINE)
        return heading.split(self.pages)[1].partition("\n── ")[0]


def shared_demonstration(base: Path) -> Demonstration:
    """Return the one run below `base`; the first worker of a session that asks makes it."""
    base.mkdir(exist_ok=True)
    told = base / "told.json"
    with hold_lock(base / "lock", fcntl.LOCK_EX):
        if not told.exists():
            told.write_text(json.dumps(asdict(_demonstration(base))), encoding="utf-8")
    return Demonstration(**json.loads(told.read_bytes()))


def _demonstration(base: Path) -> Demonstration:
    # One command for the readme, and from a path with a space.
    home = base / "a checkout" / ".echelon"
    home.parent.mkdir()
    surroundings = environment(home)
    ended = subprocess.run(
        [ECHELON, "demo", "--json"],
        cwd=home.parent,
        env=surroundings,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        timeout=PATIENCE_SECONDS,
        encoding="utf-8",
    )
    left = left_by(home, Path(surroundings["TMPDIR"]))
    pages = home / "demo" / "pages.txt"
    EmbeddedHome(home / "demo").end()
    return Demonstration(
        home=str(home),
        code=ended.returncode,
        shown=ended.stderr,
        pages=pages.read_text(encoding="utf-8") if pages.exists() else "",
        document=ended.stdout,
        left=left,
    )


def left_by(home: Path, temporary: Path) -> list[str]:
    """Return what there is at this moment that a demo in `home` should have taken with it."""
    sockets = EmbeddedHome(home / "demo").cluster.sockets
    expected = {home, home / "demo", temporary}
    folders = (home.parent, home, temporary, home / "demo" / "temporary")
    found = [path for folder in folders for path in folder.glob("*") if path not in expected]
    return [
        *(command_of(pid) for pid in processes_of(home)),
        *map(str, found),
        *([str(sockets)] if sockets.exists() else []),
    ]


def processes_of(home: Path) -> list[int]:
    """Return what runs for a demo in `home`, as environment, folder or arguments tell.

    The database has neither our environment nor our folder, but the id of its home in arguments.
    """
    marks = [os.fsencode(home)]
    if (home / "demo" / "postgres" / "instance.json").exists():
        marks.append(f"echelon-{EmbeddedHome(home / 'demo').instance}".encode())
    return [pid for pid in pids() if pid != os.getpid() and _bears(pid, marks)]


def _bears(pid: int, marks: list[bytes]) -> bool:
    process = Path(f"/proc/{pid}")
    try:
        seen = (process / "cmdline").read_bytes() + (process / "environ").read_bytes()
        seen += os.fsencode((process / "cwd").readlink())
    except OSError:
        # Ended, a zombie, or somebody else's.
        return False
    return any(mark in seen for mark in marks)
