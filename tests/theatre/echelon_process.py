"""The real `echelon` program as a process: run it, watch it, kill it, look what it left."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, cast

ECHELON = Path(sys.executable).with_name("echelon")
REPOSITORY = Path(__file__).resolve().parents[2]
CARTOGRAPH = REPOSITORY / "fixtures" / "templates" / "product_cartograph_v1.json"
# Only what hangs waits so long: with other work on the cores a run of axion worlds took over 180 s.
PATIENCE_SECONDS = 600.0

# A test runner in the background may ignore SIGINT, and an ignored signal stays ignored.
_LISTENING = (
    "import os, signal, sys;"
    "signal.signal(signal.SIGINT, signal.SIG_DFL);"
    "os.execv(sys.argv[1], sys.argv[1:])"
)

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """How a command ended and what it said."""

    code: int
    stdout: str
    stderr: str

    @property
    def document(self) -> dict[str, Any]:
        """Return stdout as the one JSON document that it must be."""
        return cast("dict[str, Any]", json.loads(self.stdout))


def environment(home: Path, *, more: Mapping[str, str] | None = None) -> dict[str, str]:
    """The caller's environment with a store of its own."""
    kept = {
        name: value
        for name, value in os.environ.items()
        # No test spends anybody's credit: a judge has a key only where a test gives one.
        if not name.startswith(("ECHELON_", "ANTHROPIC_")) and not name.startswith("COVERAGE")
    }
    # What a killed run leaves in its temporary folder goes with the test's own.
    temporary = next(folder for folder in home.parents if folder.is_dir()) / "temporary files"
    temporary.mkdir(exist_ok=True)
    return {
        **kept,
        "ECHELON_HOME": str(home),
        "TMPDIR": str(temporary),
        # Keys and log of the test's own, as the caller's may be those of a person.
        "ECHELON_TRUST_HOME": str(temporary.with_name("issuer")),
        **(more or {}),
    }


def echelon(
    *arguments: str | Path,
    home: Path,
    cwd: Path | None = None,
    more: Mapping[str, str] | None = None,
    patience: float = PATIENCE_SECONDS,
) -> Answer:
    """Run `echelon` to its end. `more` are environment variables."""
    ended = subprocess.run(
        [ECHELON, *arguments],
        cwd=cwd,
        env=environment(home, more=more),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        timeout=patience,
        encoding="utf-8",
    )
    return Answer(code=ended.returncode, stdout=ended.stdout, stderr=ended.stderr)


@contextmanager
def started(
    *arguments: str | Path,
    home: Path,
    command: Sequence[str | Path] = (ECHELON,),
    more: Mapping[str, str] | None = None,
) -> Iterator[subprocess.Popen[str]]:
    """Start `echelon`, which hears SIGINT; a process that the test leaves behind is killed."""
    with subprocess.Popen(
        [sys.executable, "-c", _LISTENING, *command, *arguments],
        env=environment(home, more=more),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def ended(process: subprocess.Popen[str]) -> Answer:
    """Wait for the end of a started command."""
    stdout, stderr = process.communicate(timeout=PATIENCE_SECONDS)
    return Answer(code=process.returncode, stdout=stdout, stderr=stderr)


def until(look: Callable[[], T | None], what: str, *, pause: float = 0.002) -> T:
    """Return what `look` sees once it sees something; fails after PATIENCE_SECONDS.

    The first pauses are short against a batch of ten episodes. They grow with the wait, up to a
    tenth of a second: a look is often a request, and takes the processor from what it waits for.
    """
    began = time.monotonic()
    while (waited := time.monotonic() - began) < PATIENCE_SECONDS:
        seen = look()
        if seen:
            return seen
        time.sleep(max(pause, min(waited / 5, 0.1)))
    raise TimeoutError(f"expected {what} within {PATIENCE_SECONDS:g} s, got nothing")


def processes_that_mention(text: str | Path) -> list[str]:
    """The command lines of running processes with `text` in arguments or environment."""
    found: list[str] = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal() or int(entry.name) == os.getpid():
            continue
        try:
            command = (entry / "cmdline").read_bytes()
            surroundings = (entry / "environ").read_bytes()
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
        if str(text).encode() in command + surroundings:
            found.append(command.decode("utf-8", "replace").replace("\0", " "))
    return found
