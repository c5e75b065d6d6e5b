"""What tests of pages look at: a service with runs in every state, and reports as files.

Everything here is made before a browser is there: most of it needs an event loop of its own.
"""

import contextlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from backend.main import create_app
from backend.settings import Settings
from tests.backend.databases import Database
from tests.backend.log_rows import await_all_logged
from tests.backend.operating import operate
from tests.backend.serving import Client, served, settings_for
from tests.backend.sums_stage import SumsStage, sums, sums_stage
from tests.backend.test_theatre_bridge import bundle_of, committed, run
from tests.theatre.conftest import CONSTRUCT_ID, episode
from tests.theatre.rated_runs import AGGREGATE, details, rate, rated_stage, rating, rubric_step
from tests.theatre.runs import ScriptedAdapter, answer_as_asked, episodes
from tests.theatre.transparency.issued_bundle import IssuedBundle, issue_bundle
from theatre.cli.report_command import write_report
from theatre.engine.canonical_json import JsonObject, canonical_line, parse_object, sha256_hex
from theatre.engine.commitment import content_hash

EPISODES = 14
ITEMS = 10
"""How many items people rate: with fewer, nothing is said of how far they agree."""
HOSTILE = (
    "<script id=planted>planted = 1</script>",
    '"><img id=planted src=x onerror="planted=2">',
    "'; planted = 3; //</style></title></textarea></pre>",
    "{{ 7 * 7 }}{% raw %}",
    "\u202egnorw\u202c \u2066\u05d0\u05d1\u05d2",
    "x" * 10_000,
)
"""What must be text wherever it stands, with the layout as it was."""


@dataclass(slots=True, kw_only=True)
class PageStage:
    """The service and its files, and what is to be seen there."""

    services: contextlib.ExitStack
    client: Client
    owner: Client
    settings: Settings
    sums: SumsStage
    theatre: str
    """Certified."""
    certificate: str
    second: str
    """Another certificate of the template."""
    template: str
    asking: str
    """Waits for people."""
    report: Path
    """Of the certified theatre."""
    hostile: Path
    """Of a bundle with hostile values wherever a run takes them."""
    honest: IssuedBundle
    forged: IssuedBundle
    """Holds as a whole, by another issuer."""
    kept: Path
    """A report of the honest bundle, as a reader has saved it."""

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
            "comparison": f"/compare?certificate={self.certificate}&certificate={self.second}",
            "choice": f"/compare?certificate={self.certificate}",
            "log": "/log",
        }

    def gated(self) -> str:
        """Commit a theatre whose run waits at its third episode, and again at the sixth."""
        return committed(self.owner, _gated(self.sums)).removeprefix("/api/v1")

    def aggregate(self, path: str) -> dict[str, Any]:
        """Return the aggregate of a theatre that is certified."""
        bundle = bundle_of(self.settings.home, path)
        return {**parse_object((bundle / "scores" / "aggregate.json").read_bytes())}

    def restart(self) -> None:
        """Stop the service, and serve the same again at the same port."""
        self.services.close()
        self.services.enter_context(served(create_app(self.settings), port=self.client.port))


@contextlib.contextmanager
def page_stage(
    database: Database, folder: Path, *, said: Sequence[str] = HOSTILE
) -> Iterator[PageStage]:
    """Serve a construct's record, and write the reports; `said` is what people wrote in it."""
    template = {**_words(said), "metadata": {"author": "Template Author"}}
    stage = sums_stage(folder / "stage", _asked(said), template_changes=template)
    registry = stage.folder / "constructs.toml"
    accepted = f'\n[accepted_templates]\nsums = "{content_hash(stage.template)}"\n'
    registry.write_text(registry.read_text() + accepted)
    settings = settings_for(
        database, folder / "home", lease_seconds=1, drain_seconds=0, **stage.settings
    )
    with contextlib.ExitStack() as services:
        client = services.enter_context(served(create_app(settings)))
        owner = client.registered("ada")
        assert owner.post("/constructs", {"construct_id": CONSTRUCT_ID}).status == 201
        operate(database, stage.folder, "confirm", CONSTRUCT_ID, user="ada")
        # Two: of one there is no chart of versions, and nothing to compare.
        other, certified = (_certified(owner, stage.template) for _ in range(2))
        asking = committed(owner, _rated(stage.template, said))
        assert run(owner, asking).document["run"]["status"] == "waiting_hitl"
        await_all_logged(database)
        report, hostile, kept = (folder / f"{name}.html" for name in ("own", "hostile", "kept"))
        write_report(str(bundle_of(folder / "home", certified["id"])), report)
        write_report(str(_hostile_bundle(folder / "pilot")), hostile)
        honest = issue_bundle(folder / "honest")
        write_report(str(honest.bundle), kept, trust=honest.trust_file(folder))
        yield PageStage(
            services=services,
            settings=settings,
            client=client,
            sums=stage,
            theatre=certified["id"],
            certificate=certified["certificate_id"],
            second=other["certificate_id"],
            template=str(stage.template["theatre_id"]),
            asking=asking.removeprefix("/api/v1"),
            owner=owner,
            report=report,
            hostile=hostile,
            kept=kept,
            honest=honest,
            forged=issue_bundle(folder / "forged", changes={"/display_name": "Pilot, but better"}),
        )


def _asked(said: Sequence[str]) -> list[JsonObject]:
    """Return episodes: some that the construct gets wrong, refuses and fails at."""
    kinds = {3: "wrong", 8: "wrong", 12: "refuse", 13: "err"}
    made = [episode(number, [number, 1], kinds.get(number)) for number in range(1, EPISODES + 1)]
    for number, text in enumerate(said):
        given: Any = made[2 + number]["input_data"]
        given["note"] = text
        given[text[:60]] = None
    return made


def _words(said: Sequence[str]) -> dict[str, Any]:
    words = " ".join(said)[:2000]
    criteria = {"criteria_ids": ["addition"], "criteria_human": words, "weights": {"addition": 1}}
    options = [
        {"option_id": "meets", "label": said[0]},
        {"option_id": "falls_short", "label": said[1]},
    ]
    return {
        "display_name": words[:100],
        "criteria": criteria,
        "fork_definitions": [{"fork_id": "f_01", "options": options}],
    }


def _rated(template: JsonObject, said: Sequence[str]) -> JsonObject:
    call: JsonObject = {
        "step_id": "add",
        "type": "construct_invocation",
        "construct_id": CONSTRUCT_ID,
    }
    asked = f"How well is it said? {said[1]}"
    return {
        **template,
        "resolution_programme": [call, rubric_step(), AGGREGATE],
        "hitl_steps": [rating(criterion_id="addition", items=ITEMS, rubric=asked)],
    }


def _gated(stage: SumsStage) -> JsonObject:
    asked: Any = sums(8, gate_at=3)
    asked[5]["input_data"] |= {"do": "second gate"}
    raw = b"".join(map(canonical_line, asked))
    (stage.folder / "gated.jsonl").write_bytes(raw)
    template: Any = json.loads(json.dumps(stage.template))
    template["dataset_hashes"] = {"gated": sha256_hex(raw)}
    template["product_theatre_config"] |= {
        "replay_data_path": "gated.jsonl",
        "replay_dataset_id": "gated",
    }
    return dict(template)


def _certified(owner: Client, template: JsonObject) -> dict[str, Any]:
    theatre = run(owner, committed(owner, template)).document
    assert theatre["outcome"] == "certified", theatre
    return dict(theatre)


def _hostile_bundle(folder: Path) -> Path:
    """Run a theatre with hostile values in its data, its answers, and in the names of people."""
    answers: list[JsonObject] = []
    for text in HOSTILE:
        answers.append({"output_data": {"colour": text, "recall": None, text[:60]: text}})
        answers.append({"status": "error", "output_data": None, "error_detail": text})
    asked: Any = episodes(len(answers), dict(enumerate(answers, 1)))
    for number, one in enumerate(asked):
        text = HOSTILE[number % len(HOSTILE)]
        one["episode_id"] = f"{number} {text}"[:255]
        one["input_data"] |= {"note": text, text[:60]: None}
        one["expected_output"]["why"] = text
    words = {f"/{name}": value for name, value in _words(HOSTILE).items() if name != "criteria"}
    stage = rated_stage(
        folder,
        asked,
        ratings=[rating(rubric=HOSTILE[1])],
        changes=words | {"/criteria/criteria_human": " ".join(HOSTILE)[:2000]},
    )
    (opened,) = details(stage.run(ScriptedAdapter(answer_as_asked)).trail, "hitl_opened")
    items: Any = opened["items"]
    for name in HOSTILE[:2]:
        rate(stage, name, dict.fromkeys(items, 4))
    return stage.run(ScriptedAdapter(answer_as_asked)).bundle
