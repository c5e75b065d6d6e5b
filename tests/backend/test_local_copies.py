"""What a machine keeps beside the store: forgotten when it can be had again, and only then."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from backend.database import migrations
from backend.database.embedded.cluster import SUPERUSER
from backend.main import create_app
from backend.services.earlier_bundles import adopt_earlier_bundles
from backend.services.local_copies import COPY_RETENTION, remove_local_copies
from backend.services.resources import TheatreResources
from backend.settings import Settings
from tests.backend.databases import Database
from tests.backend.object_stores import ObjectStore, free_port, rclone
from tests.backend.serving import served, settings_for
from tests.backend.sums_stage import SumsStage, sums, sums_stage
from tests.backend.test_theatre_runs import committed, run
from tests.theatre.echelon_process import until
from theatre.cli import cli
from theatre.cli.exits import ExitCode, run_guarded
from theatre.engine.evidence_bundle import bundle_name

NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)
HANDED_OUT = ("evidence-bundle", "evidence-bundle/manifest.json", "replay")


@dataclass(frozen=True, slots=True)
class Home:
    """A home whose service is stopped: nothing comes and goes by itself."""

    database: Database
    settings: Settings

    @property
    def evidence(self) -> Path:
        return self.settings.home / "evidence"

    def forgotten(self) -> int:
        return self._done(partial(remove_local_copies, at=NOW))

    def adopted(self) -> int:
        return self._done(adopt_earlier_bundles)

    def _done(self, work: Callable[[AsyncEngine, TheatreResources], Awaitable[int]]) -> int:
        async def scene() -> int:
            resources = TheatreResources.of(self.settings, clock=lambda: NOW)
            engine = self.database.engine()
            try:
                return await work(engine, resources)
            finally:
                await engine.dispose()

        return asyncio.run(scene())

    def left(self) -> set[str]:
        """What lies below the folder of the evidence, two names deep."""
        return {str(path.relative_to(self.evidence)) for path in self._paths()}

    def aged(self, age: timedelta) -> None:
        """Have all of it last written so long before now."""
        moment = (NOW - age).timestamp()
        for path in self._paths():
            os.utime(path, (moment, moment))

    def _paths(self) -> list[Path]:
        return [*self.evidence.glob("cache/*/*"), *self.evidence.glob("theatres/*")]


@pytest.fixture
def bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectStore]:
    with rclone(free_port(), tmp_path / "served") as server:
        for name, value in server.variables.items():
            monkeypatch.setenv(name, value)
        yield server


def test_a_refused_draft_is_kept_for_thirty_days(database: Database, tmp_path: Path) -> None:
    home = Home(database, settings_for(database, tmp_path / "home"))
    draft = home.evidence / "drafts" / "0b6f3f0e-6f4a-4c39-9c0e-5d5b8f2f7a11"
    draft.mkdir(parents=True)
    for age, is_kept in ((timedelta(days=29), True), (timedelta(days=31), False)):
        moment = (NOW - age).timestamp()
        os.utime(draft, (moment, moment))
        assert (home.forgotten(), draft.exists()) == (int(not is_kept), is_kept)


def test_what_the_store_holds_too_is_forgotten_after_a_day_and_what_is_not_over_is_not(
    database: Database, tmp_path: Path, bucket: ObjectStore
) -> None:
    stage = sums_stage(tmp_path / "stage", sums(2))
    settings = settings_for(database, tmp_path / "home", **stage.settings, evidence_url=bucket.url)
    home = Home(database, settings)
    with served(create_app(settings)) as client:
        ada = client.registered("ada")
        path, idle = committed(ada, stage.template), committed(ada, stage.template)
        assert run(ada, path).document["outcome"] == "certified"
        until(lambda: ada.get(path).document["run"]["status"] == "succeeded", "the end of the run")
        whole = [client.get(f"{path}/{name}").body for name in HANDED_OUT]
    # A draft that a killed process left, and the desk of a run that is not over.
    (home.evidence / "cache" / "drafts" / "left").write_bytes(b"half")
    (home.evidence / "theatres" / id_of(idle)).mkdir()
    everything = home.left()
    assert {f"theatres/{id_of(path)}", "cache/drafts/left"} < everything
    home.aged(COPY_RETENTION - timedelta(minutes=1))
    assert (home.forgotten(), home.left()) == (0, everything)
    home.aged(COPY_RETENTION + timedelta(minutes=1))
    assert home.forgotten() == len(everything) - 1
    assert home.left() == {f"theatres/{id_of(idle)}"}
    with served(create_app(settings)) as client:
        assert [client.get(f"{path}/{name}").body for name in HANDED_OUT] == whole


def id_of(path: str) -> str:
    return path.rpartition("/")[2]


def sealed_before_archives_were_kept(home: Home, stage: SumsStage) -> tuple[str, list[bytes]]:
    """Certify a theatre, then put everything to where revision 0007 and its release had it."""
    with served(create_app(home.settings)) as client:
        ada = client.registered("ada")
        path = committed(ada, stage.template)
        assert run(ada, path).document["outcome"] == "certified"
        until(lambda: client.get(f"{path}/replay").status == 200, "the export")
        whole = [client.get(f"{path}/{name}").body for name in HANDED_OUT]
    (export,) = (home.evidence / "exports").iterdir()
    export.rename(home.evidence / "theatres" / id_of(path) / "rlmf_export.jsonl")
    for folder in ("bundles", "cache"):
        shutil.rmtree(home.evidence / folder)
    owner = home.database.owner
    migrations.downgrade(owner, "0007")
    assert migrations.current_revision(owner) == "0007"
    migrations.upgrade(owner)
    return path, whole


def test_what_was_sealed_before_archives_were_kept_is_adopted_and_not_forgotten_before(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = sums_stage(tmp_path / "stage", sums(3))
    settings = settings_for(database, tmp_path / "home", **stage.settings)
    home = Home(database, settings)
    path, whole = sealed_before_archives_were_kept(home, stage)
    bundle = home.evidence / "theatres" / id_of(path) / bundle_name(id_of(path))
    home.aged(timedelta(days=30))
    assert home.forgotten() == 0
    # What was changed since is not what was certified.
    answer = bundle / "invocations" / "episode_000002.json"
    sealed = answer.read_bytes()
    answer.write_bytes(sealed.replace(b'"sum":3', b'"sum":4'))
    assert (home.adopted(), named(database)) == (0, [])
    answer.write_bytes(sealed)
    with served(create_app(settings)) as client:
        until(lambda: client.get(f"{path}/evidence-bundle").status == 200, "its adoption")
        assert [client.get(f"{path}/{name}").body for name in HANDED_OUT] == whole
    (certificate,) = database.rows("SELECT issued_at AS sealed_at FROM theatre_certificates")
    assert named(database) == [certificate]
    assert home.adopted() == 0
    monkeypatch.setenv("ECHELON_HOME", str(settings.home))
    monkeypatch.setenv("ECHELON_DATABASE_URL", database.application)
    assert run_guarded(cli, ["admin", "fsck"]) is ExitCode.OK
    home.aged(timedelta(days=30))
    assert home.forgotten() >= 1
    assert not bundle.exists()


def named(database: Database) -> list[dict[str, object]]:
    with database.connected(SUPERUSER) as connection:
        return connection.execute("SELECT sealed_at FROM sealed_bundles").fetchall()
