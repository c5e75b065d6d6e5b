"""What could never be called is refused when a theatre is made, before anything is public."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from backend.main import create_app
from tests.backend.databases import Database
from tests.backend.serving import Client, served, settings_for
from tests.backend.sums_stage import SumsStage, sums, sums_stage
from tests.backend.test_theatre_bridge import committed, run
from tests.backend.theatre_templates import cartograph, with_config
from tests.theatre.conftest import CONSTRUCT_ID
from tests.theatre.runs import with_changes
from theatre.oracles.construct_registry import ConstructRegistry, construct_version
from theatre.oracles.isolation.means import REFUSED

NOWHERE = "http://nothing.invalid/"
UNRESOLVED = {
    "pointer": "/product_theatre_config/adapter_endpoint",
    "rule": "endpoint-host",
    "detail": "expected a host name that resolves, got none that does now",
}


@pytest.fixture
def stage(tmp_path: Path) -> SumsStage:
    return sums_stage(tmp_path / "stage", sums(2))


@pytest.fixture
def ada(database: Database, tmp_path: Path) -> Iterator[Client]:
    with served(create_app(settings_for(database, tmp_path / "home"))) as client:
        yield client.registered("ada")


@pytest.fixture(scope="module")
def refusing(anybody: Client) -> Client:
    """A user of a service that is asked only for what it refuses."""
    return anybody.registered("ada")


def at(place: str, template: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return a template whose construct is reached there."""
    document = with_config(template or cartograph(), adapter_type="http", adapter_endpoint=place)
    document["version_pins"] = {**document["version_pins"], "adapter_version": "http@1"}
    return document


@pytest.mark.parametrize(
    ("place", "slug"),
    [
        ("construct:nobody", "construct-unknown"),
        ("http://127.0.0.1:9/", "address-not-allowed"),
        ("http://[::1]:9/", "address-not-allowed"),
        ("http://10.1.2.3/", "address-not-allowed"),
        ("http://169.254.169.254/latest", "address-not-allowed"),
        ("http://[::ffff:10.0.0.1]/", "address-not-allowed"),
        ("http://localhost:9/", "address-not-allowed"),
    ],
)
def test_an_endpoint_that_no_call_may_go_to_makes_no_theatre(
    refusing: Client, module_database: Database, place: str, slug: str
) -> None:
    for query in ("", "?dry_run=true"):
        refused = refusing.post(f"/theatres{query}", {"template_json": at(place)})
        assert (refused.status, refused.slug) == (422, slug)
        assert place not in refused.body.decode()
        assert module_database.rows("SELECT id FROM theatres") == []


def test_a_program_that_nothing_here_isolates_makes_no_theatre(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(REFUSED, "namespaces,landlock,other-user")
    with served(create_app(settings_for(database, tmp_path / "home"))) as client:
        ada = client.registered("ada")
        refused = ada.post("/theatres", {"template_json": cartograph()})
        assert (refused.status, refused.slug) == (422, "isolation-unavailable")
        assert database.rows("SELECT id FROM theatres") == []
        assert ada.get("/readyz").document["details"] == {
            "isolation": {"files": False, "processes": False, "network": False, "by": "none"}
        }
        # What runs elsewhere needs no isolation here.
        assert ada.post("/theatres", {"template_json": at(NOWHERE)}).status == 201


def test_nor_is_one_run_where_nothing_isolates_any_more(
    database: Database, tmp_path: Path, stage: SumsStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = settings_for(database, tmp_path / "home", **stage.settings)
    with served(create_app(settings)) as client:
        ada = client.registered("ada")
        path = committed(ada, stage.template)
    token = ada.headers["Authorization"].removeprefix("Bearer ")
    # A process keeps what it has found of its places. With another one it tries anew.
    another = settings.model_copy(update={"dataset_roots": (stage.folder, tmp_path)})
    monkeypatch.setenv(REFUSED, "namespaces,landlock,other-user")
    with served(create_app(another)) as client:
        refused = run(client.bearing(token), path).document
    assert (refused["state"], refused["run"]["status"], refused["outcome"]) == (
        "COMMITTED",
        "failed",
        None,
    )
    assert refused["error"] == (
        "isolation-unavailable: expected a machine that can isolate the operator's programs, got "
        "one that cannot: a construct behind a URL can be called"
    )
    assert stage.calls == []
    monkeypatch.delenv(REFUSED)
    with served(create_app(settings)) as client:
        assert run(client.bearing(token), path).document["outcome"] == "certified"


def test_so_is_one_of_the_constructs_of_a_chain(ada: Client) -> None:
    chained = at(
        "construct:cartograph",
        with_config(
            cartograph(),
            construct_endpoints={
                "cartograph": {"adapter_type": "http", "endpoint": "http://192.168.0.1/"}
            },
        ),
    )
    assert ada.post("/theatres", {"template_json": chained}).slug == "address-not-allowed"


def test_a_name_that_does_not_resolve_is_a_warning(ada: Client) -> None:
    made = ada.post("/theatres", {"template_json": at(NOWHERE)})
    assert (made.status, made.document["warnings"]) == (201, [UNRESOLVED])
    dry = ada.post("/theatres?dry_run=true", {"template_json": at(NOWHERE)})
    assert (dry.status, dry.document["warnings"]) == (200, [UNRESOLVED])


def test_what_the_operator_allows_is_named_without_a_warning_and_judged_anew_at_the_call(
    database: Database, tmp_path: Path, stage: SumsStage
) -> None:
    inside = at("http://localhost:9/", stage.template)
    settings = settings_for(database, tmp_path / "home", **stage.settings)
    allowing = settings.model_copy(update={"outbound_allow": ("localhost:9",)})
    with served(create_app(allowing)) as client:
        ada = client.registered("ada")
        made = ada.post("/theatres", {"template_json": inside})
        assert (made.status, made.document["warnings"]) == (201, [])
        path = committed(ada, inside)
    with served(create_app(settings)) as client:
        again = Client(client.port, ada.headers)
        for _ in range(2):
            theatre = run(again, path).document
            assert (theatre["state"], theatre["run"]["status"]) == ("COMMITTED", "failed")
            assert theatre["error"].startswith("endpoint-not-allowed")
        assert again.post(f"{path}/cancel", b"").document["outcome"] == "void"


def test_a_verification_names_no_refused_host_either(ada: Client) -> None:
    wish = {
        "source": {"kind": "github", "repository": "pallets/click", "limit": 50},
        "construct": {"construct_id": "oracle", "endpoint": "http://localhost:9/"},
    }
    assert ada.post("/verification/run", wish).slug == "address-not-allowed"


def test_nor_is_one_whose_files_hold_the_ground_truth(
    database: Database, tmp_path: Path, stage: SumsStage
) -> None:
    """A rehearsal with it is run: no certificate comes of that."""
    construct = stage.folder / "construct"
    notes = (stage.folder / "sums.jsonl").read_text(encoding="utf-8")
    (construct / "notes.py").write_text(f'NOTES = """{notes}"""\n', encoding="utf-8")
    registry = ConstructRegistry.load(stage.folder / "constructs.toml")
    version = construct_version(registry.find(CONSTRUCT_ID))
    template = with_changes(stage.template, {f"/version_pins/constructs/{CONSTRUCT_ID}": version})
    settings = settings_for(database, tmp_path / "home", **stage.settings)
    with served(create_app(settings)) as client:
        ada = client.registered("ada")
        path = committed(ada, template)
        refused = run(ada, path).document
        assert (refused["state"], refused["run"]["status"]) == ("COMMITTED", "failed")
        assert refused["error"].startswith(
            "dataset-copy: expected files of sums without the ground truth of the template, got "
            "notes.py, which holds the dataset sums: "
        )
        assert stage.calls == []
        rehearsed = run(ada, committed(ada, template), is_certificate_run=False).document
        assert (rehearsed["run"]["status"], len(stage.calls)) == ("succeeded", 2)
