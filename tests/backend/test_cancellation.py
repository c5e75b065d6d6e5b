"""A cancellation that was accepted ends as void, however late its news come to the run."""

from pathlib import Path

from backend.database.sessions import OWNER
from backend.main import create_app
from tests.backend.databases import Database
from tests.backend.serving import served, settings_for
from tests.backend.sums_stage import sums, sums_stage
from tests.backend.test_theatre_bridge import bundle_of, committed
from tests.theatre.echelon_process import until

DEAF = {"lease_seconds": 3600.0}
"""Without an announcement, a run looks for its cancellation four times in a lease."""


def test_a_cancellation_of_which_the_run_never_hears_leaves_no_certificate(
    database: Database, tmp_path: Path
) -> None:
    stage = sums_stage(tmp_path / "stage", sums(3, gate_at=3))
    home = tmp_path / "home"
    with database.connected(OWNER) as connection:
        connection.execute("DROP TRIGGER announce_theatre ON theatres")
    settings = settings_for(database, home, **DEAF, **stage.settings)
    with served(create_app(settings)) as client:
        ada = client.registered("ada")
        path = committed(ada, stage.template)
        assert ada.post(f"{path}/run", b"").status == 202
        until(lambda: ada.get(path).document["progress"] == 2, "two episodes")
        assert ada.post(f"{path}/cancel", b"").status == 202

        def is_over() -> bool:
            # Whoever has just come before the gate may have missed it.
            stage.let_through()
            return ada.get(path).document["outcome"] is not None

        until(is_over, "the end of the run")
        theatre = ada.get(path).document
    # The last episode was called and recorded: between it and the settlement came the refusal.
    assert (theatre["state"], theatre["outcome"], theatre["outcome_reason"]) == (
        "RESOLVED",
        "void",
        "cancelled",
    )
    assert theatre["progress"] == 3
    assert not bundle_of(home, path).exists()
    assert database.rows("SELECT id FROM theatre_certificates") == []
