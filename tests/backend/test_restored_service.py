"""Two services that restore the same backup: the second one is found by their witness.

Both are real, with a database each; the witness is a real one, over HTTP on loopback.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import shutil
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from backend.main import create_app
from backend.runtime import now
from tests.backend.databases import Database
from tests.backend.serving import served, settings_for
from tests.backend.sums_stage import sums, sums_stage
from tests.backend.test_backups import administer
from tests.backend.test_theatre_bridge import committed, run
from tests.theatre.echelon_process import until
from tests.theatre.transparency.log_stage import signer
from tests.theatre.transparency.loopback_log import serving, witness_in
from theatre.cli.exits import ExitCode
from theatre.files.trust_home import TrustHome
from theatre.transparency.notes import KeyKind
from theatre.transparency.policy import Policy
from theatre.transparency.trust import Trust
from theatre.transparency.witness import Witness

WITNESS = signer("witness.example", KeyKind.WITNESS, seed=2)


@contextlib.contextmanager
def witnessing(trust: Trust, folder: Path) -> Iterator[str]:
    """Serve a witness that follows a log, in a thread with a loop of its own."""
    followed = Witness(WITNESS.key, WITNESS.sign, {trust.log.name: [trust.log]})
    found: list[str] = []
    ready = threading.Event()
    loop = asyncio.new_event_loop()
    stop = asyncio.Event()

    async def work() -> None:
        async with serving(witness_in(folder, followed)) as url:
            found.append(url)
            ready.set()
            await stop.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(work(),))
    thread.start()
    try:
        ready.wait()
        yield found[0]
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        loop.close()


def policed(home: TrustHome, url: str) -> None:
    """Name the witness in the policy of a service's own keys."""
    trust = home.open(issuer="local", at=now())
    text = f"log {trust.log}\nwitness w {WITNESS.key} {url}\nquorum none\n"
    home.write(replace(trust, policy=Policy.parse(text.encode()), policy_text=text))


def size_of(database: Database) -> int:
    (row,) = database.rows("SELECT max(size) AS size FROM log_checkpoints")
    return int(row["size"] or 0)


def test_the_second_of_two_services_that_restore_one_backup_is_found_by_its_witness(
    database: Database,
    empty_database: Database,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    stage = sums_stage(tmp_path / "stage", sums(3))
    first, second, backup = tmp_path / "first", tmp_path / "second", tmp_path / "backup"
    keys = TrustHome(first / "trust")
    with witnessing(keys.open(issuer="local", at=now()), tmp_path / "w") as url:
        policed(keys, url)
        settings = settings_for(database, first, **stage.settings)
        with served(create_app(settings)) as client:
            ada = client.registered("ada")
            assert run(ada, committed(ada, stage.template)).document["outcome"] == "certified"
            until(lambda: size_of(database) == 2, "the end of the run in the log")
            assert administer(monkeypatch, database, first, "backup", str(backup)) is ExitCode.OK
            assert run(ada, committed(ada, stage.template)).document["outcome"] == "certified"
            until(lambda: size_of(database) == 4, "the end of the second run in the log")
        # Each start tells the witness how far the log has got.
        with served(create_app(settings)):
            until(lambda: b"\n4\n" in seen_by(tmp_path / "w"), "the witness that has seen it")

        shutil.copytree(first / "trust", second / "trust")
        assert administer(monkeypatch, empty_database, second, "restore", str(backup)) in ExitCode
        before = size_of(empty_database)
        with (
            caplog.at_level(logging.ERROR),
            served(create_app(settings_for(empty_database, second, **stage.settings))) as client,
        ):
            until(lambda: "log-behind" in json.dumps(fields_of(caplog)), "the writer's refusal")
            assert "witness.example has seen 4" in json.dumps(fields_of(caplog))
        assert (before, size_of(empty_database)) == (2, 2)
    assert not (tmp_path / "w" / "evidence").exists()


def seen_by(folder: Path) -> bytes:
    """Return the checkpoint that a witness has kept."""
    return b"".join(path.read_bytes() for path in folder.glob("*.checkpoint"))


def fields_of(caplog: pytest.LogCaptureFixture) -> list[object]:
    return [getattr(record, "fields", None) for record in caplog.records]
