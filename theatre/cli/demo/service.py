"""`echelon serve` as a process of the demo, and what its operator does on the machine."""

import contextlib
import json
import os
import re
import select
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from theatre.cli.demo.client import DemoError, NoAnswerError
from theatre.cli.demo.place import DemoPlace
from theatre.engine.canonical_json import JsonObject
from theatre.engine.commitment import content_hash
from theatre.engine.schema_registry import resource_root
from theatre.oracles.construct_registry import read_entries

# -P: no module of the folder that the demo was started in.
_ECHELON = (sys.executable, "-P", "-m", "theatre.cli")

_LISTENING = re.compile(r"running on (http://127\.0\.0\.1:\d+)")
_START_SECONDS = 180.0
_STOP_SECONDS = 90.0
_END_SECONDS = 2.0
_KEEPER_SECONDS = 15.0
_POLL_SECONDS = 0.02
_LAST_LINES = 4
_LINE_CHARACTERS = 600
_OPERATOR_SECONDS = 180


class ServiceEndedError(DemoError):
    """The service did not start, or ended too early; the message has the end of its log."""

    code = "demo-service-ended"


class ServiceProcess(NamedTuple):
    """A running `echelon serve`."""

    process: subprocess.Popen[bytes]
    log: Path

    def address(self) -> str:
        """Return where it listens, once it does.

        Raises ServiceEndedError where it ends instead, or needs more than three minutes.
        """
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline:
            found = _LISTENING.search(self.log.read_text(encoding="utf-8", errors="replace"))
            if found:
                return found[1]
            self.require_running("start")
            time.sleep(_POLL_SECONDS)
        raise ServiceEndedError(
            f"expected the service to start within {_START_SECONDS:g} s, got in {self.log}:\n"
            f"{self._last_words()}"
        )

    def require_running(self, what: str = "go on") -> None:
        """Raise ServiceEndedError, with the end of the log, where the process has ended."""
        code = self.process.poll()
        if code is not None:
            raise ServiceEndedError(
                f"expected the service to {what}, got its end (exit code {code}); its log, "
                f"{self.log}, ends with:\n{self._last_words()}"
            )

    def _last_words(self) -> str:
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        faults = [words for words in map(_fault_of, lines) if words]
        return "\n".join(faults[-_LAST_LINES:]) or "[nothing]"


@contextlib.contextmanager
def started_service(place: DemoPlace) -> Iterator[ServiceProcess]:
    """Run the service on a free port; on leaving, stop it and wait until nothing of it is left.

    A demo that is killed stops it, too: its stdin ends then. An answer that did not come because
    the service has ended leaves as ServiceEndedError.
    """
    # The service and the keeper of its database have one end of this pipe, and no other process.
    left, held = os.pipe()
    process = None
    try:
        try:
            process = _start(place, held)
        finally:
            os.close(held)
        service = ServiceProcess(process, place.log)
        try:
            yield service
        except NoAnswerError:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_END_SECONDS)
            service.require_running()
            raise
    finally:
        _stop(process, left)


def _start(place: DemoPlace, held: int) -> subprocess.Popen[bytes]:
    with place.log.open("wb") as log:
        return subprocess.Popen(  # noqa: S603 - our own program
            [*_ECHELON, "serve", "--port", "0", "--until-stdin-ends"],
            env=place.environment,
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            pass_fds=[held],
            # Ctrl-C is the demo's, which stops the service in its time.
            start_new_session=True,
        )


def _stop(process: subprocess.Popen[bytes] | None, left: int) -> None:
    """End the service; None is one whose start Ctrl-C came into: its stdin is closed already."""
    try:
        if process is not None and process.stdin is not None:
            process.stdin.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_STOP_SECONDS)
    finally:
        if process is not None:
            process.kill()
            process.wait()
        # Of a service that was killed, the keeper of its database is left for a moment.
        ending = select.poll()
        ending.register(left, select.POLLHUP)
        ending.poll(1000 * (_STOP_SECONDS if process is None else _KEEPER_SECONDS))
        os.close(left)


def _fault_of(line: str) -> str:
    """Return what a line of the log says of a fault; nothing where it logs no warning or error."""
    try:
        entry = json.loads(line)
    except ValueError:
        return line[:_LINE_CHARACTERS]
    if entry.get("level") not in {"warning", "error", "critical"}:
        return ""
    # Of a traceback, in either of them, the last line says it.
    parts = (str(entry.get(name, "")).strip() for name in ("message", "exception"))
    return " ".join(part.rpartition("\n")[2] for part in parts).strip()[:_LINE_CHARACTERS]


# The operator's part: which constructs the service runs, and whose certificates count.


def write_constructs(target: Path, accepted: Mapping[str, JsonObject]) -> None:
    """Write a `constructs.toml` with the shipped constructs, and with templates that count."""
    shipped = resource_root() / "fixtures" / "constructs" / "constructs.toml"
    lines = ["# Written by `echelon demo`."]
    for construct_id, entry in read_entries(shipped).items():
        members = entry.model_dump(exclude_none=True)
        if "folder" in members:
            members["folder"] = str(shipped.parent / members["folder"])
        lines += ["", f'[constructs."{construct_id}"]', *_members(members)]
    hashes = {name: content_hash(template) for name, template in accepted.items()}
    lines += ["", "[accepted_templates]", *_members(hashes), ""]
    target.write_text("\n".join(lines), encoding="utf-8")


def confirm_constructs(place: DemoPlace, construct_ids: Sequence[str], *, owner: str) -> None:
    """Confirm whose constructs these are, as an operator does it on the machine of the service."""
    ended = subprocess.run(  # noqa: S603 - our own program
        [*_ECHELON, "admin", "construct", "confirm", *construct_ids, "--user", owner],
        env=place.environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        encoding="utf-8",
        timeout=_OPERATOR_SECONDS,
    )
    if ended.returncode:
        raise DemoError(
            f"expected `echelon admin construct confirm` to succeed, got exit code "
            f"{ended.returncode}: {ended.stderr.strip()[-1000:]}"
        )


def _members(members: Mapping[str, object]) -> list[str]:
    # Texts, numbers and lists of texts are written in TOML as in JSON.
    return [f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in members.items()]
