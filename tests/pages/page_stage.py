"""A service whose pages have something to show: an owner, runs, a certificate, hostile values."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from backend.main import create_app
from tests.backend.databases import Database
from tests.backend.log_rows import await_all_logged
from tests.backend.operating import operate
from tests.backend.serving import Client, served, settings_for
from tests.backend.sums_stage import sums_stage
from tests.theatre.conftest import CONSTRUCT_ID, episode
from theatre.engine.canonical_json import JsonObject
from theatre.engine.commitment import content_hash

WAIT = {"Prefer": "wait=60"}
HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(2)>',
    "'; alert(3); //</style></title>",
    "{{ 7 * 7 }}{% raw %}",
    "\u202egnorw\u202c \u2066\u05d0\u05d1\u05d2",
    "x" * 10_000,
)
"""What must be text wherever it stands, with the layout as it was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageStage:
    """The service, and what is to be seen there."""

    client: Client
    theatre: str
    certificate: str
    second: str
    """Another certificate of the template."""
    template: str
    home: Path

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.client.port}"

    @property
    def pages(self) -> dict[str, str]:
        """Every page that there is, by what it is for."""
        return {
            "home": "/",
            "certificate": f"/c/{self.certificate}",
            "construct": f"/constructs/{CONSTRUCT_ID}",
            "theatre": f"/theatres/{self.theatre}",
            "sign-in": f"/theatres/{self.theatre}/sign-in",
            "template": f"/templates/{self.template}",
            "log": "/log",
        }


@contextlib.contextmanager
def page_stage(
    database: Database, folder: Path, *, hostile: bool = False, episodes: int = 60
) -> Iterator[PageStage]:
    """Serve a construct's record: two certified runs of an accepted template."""
    stage = sums_stage(
        folder / "stage", asked(episodes, hostile=hostile), template_changes=_words(hostile=hostile)
    )
    registry = stage.folder / "constructs.toml"
    accepted = f'\n[accepted_templates]\nsums = "{content_hash(stage.template)}"\n'
    registry.write_text(registry.read_text() + accepted)
    settings = settings_for(database, folder / "home", **stage.settings)
    with served(create_app(settings)) as client:
        owner = client.registered("ada")
        assert owner.post("/constructs", {"construct_id": CONSTRUCT_ID}).status == 201
        operate(database, stage.folder, "confirm", CONSTRUCT_ID, user="ada")
        first, second = (_certified(owner, stage.template) for _ in range(2))
        await_all_logged(database)
        yield PageStage(
            client=client,
            theatre=first["id"],
            certificate=first["certificate_id"],
            second=second["certificate_id"],
            template=str(stage.template["theatre_id"]),
            home=folder / "home",
        )


def asked(count: int, *, hostile: bool) -> list[JsonObject]:
    """Return episodes: some that the construct gets wrong, refuses and fails at."""
    kinds = {3: "wrong", 8: "wrong", 12: "refuse", 17: "err", 21: "wrong"}
    made = [episode(number, [number, 1], kinds.get(number)) for number in range(1, count + 1)]
    for number, text in enumerate(HOSTILE if hostile else ()):
        given: Any = made[2 + number]["input_data"]
        given["note"] = text
        given[text[:60]] = None
    return made


def _words(*, hostile: bool) -> dict[str, Any]:
    if not hostile:
        return {"display_name": "Sums of two numbers"}
    said = " ".join(HOSTILE)[:2000]
    return {
        "display_name": said[:100],
        "criteria": {
            "criteria_ids": ["addition"],
            "criteria_human": said,
            "weights": {"addition": 1},
        },
        "fork_definitions": [
            {
                "fork_id": "f_01",
                "options": [
                    {"option_id": "meets", "label": HOSTILE[0]},
                    {"option_id": "falls_short", "label": HOSTILE[1]},
                ],
            }
        ],
    }


def _certified(owner: Client, template: JsonObject) -> dict[str, Any]:
    made = owner.post("/api/v1/theatres", {"template_json": template})
    assert made.status == 201, made
    path = made.headers["location"]
    assert owner.post(f"{path}/commit", b"").status == 200
    theatre = owner.post(f"{path}/run", {}, headers=WAIT).document
    assert theatre["outcome"] == "certified", theatre
    return dict(theatre)
