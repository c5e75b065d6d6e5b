"""What a machine keeps beside the store: forgotten when it can be had again, and only then."""

import asyncio
import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from backend.main import create_app
from backend.services.integrity.retention import COPY_RETENTION, remove_local_copies
from backend.services.resources import TheatreResources
from backend.settings import Settings
from tests.backend.databases import Database
from tests.backend.object_stores import ObjectStore, free_port, rclone
from tests.backend.serving import served, settings_for
from tests.backend.sums_stage import sums, sums_stage
from tests.backend.test_theatre_bridge import committed, run
from tests.theatre.echelon_process import until

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
        async def scene() -> int:
            resources = TheatreResources.of(self.settings, clock=lambda: NOW)
            engine = self.database.engine()
            try:
                return await remove_local_copies(engine, resources, at=NOW)
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
