"""A large run is complete, and takes no more memory than a small one."""

import gc
import math
import os
import tracemalloc
from functools import partial
from pathlib import Path
from typing import Any

from backend.main import create_app
from tests.backend.databases import Database
from tests.backend.serving import Client, served, settings_for
from tests.backend.test_theatre_bridge import bundle_of, committed
from tests.benchmarks.trivial_theatre import Mode, construct, episode, template_of
from tests.theatre.echelon_process import until
from tests.theatre.runs import TEMPLATE, checked
from theatre.engine.canonical_json import canonical_line

FEW = 5_000 if os.environ.get("ECHELON_SOAK") == "1" else 500
"""As many as the journal reads at a time: so both runs fill every window that there is."""
MANY = 4 * FEW
MODE = Mode(name="four at a time", concurrency=4, sanitises=False)
GROWTH_BYTES = 1_000
"""For an episode. Its id is kept, and a window of rows; a result has twice as much."""
ENDED = {"succeeded", "failed", "cancelled"}


def committed_run(ada: Client, folder: Path, url: str, total: int) -> str:
    """Commit a theatre of `total` trivial episodes; return its path."""
    data = b"".join(canonical_line(episode(seq)) for seq in range(1, total + 1))
    (folder / "truth.jsonl").write_bytes(data)
    template: Any = template_of(data, MODE)
    template["product_theatre_config"]["adapter_endpoint"] = url
    template["fork_definitions"] = TEMPLATE["fork_definitions"]
    return committed(ada, template)


def await_end(ada: Client, path: str, total: int) -> None:
    """Wait for the end of a run, with patience for each tenth of it: tracing makes it slow."""

    def at_least(progress: float) -> bool:
        theatre = ada.get(path).document
        return theatre["progress"] >= progress or theatre["run"]["status"] in ENDED

    for part in range(1, 11):
        until(partial(at_least, total * part / 10), f"{part} tenths of the run", pause=0.5)
    until(partial(at_least, math.inf), "the end", pause=0.5)


def peak_of_run(ada: Client, path: str, total: int) -> int:
    """Run a theatre to its end; return by how many bytes the process grew at most meanwhile."""
    gc.collect()
    tracemalloc.start()
    try:
        assert ada.post(f"{path}/run", b"").status == 202
        await_end(ada, path, total)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def assert_complete(database: Database, ada: Client, home: Path, path: str, total: int) -> None:
    theatre = ada.get(path).document
    assert (theatre["outcome"], theatre["progress"]) == ("certified", total), theatre
    theatre_id = theatre["id"]
    recorded = database.rows(
        "SELECT count(*), min(seq), max(seq) FROM theatre_episode_scores WHERE theatre_id = %s",
        theatre_id,
    )
    assert recorded == [{"count": total, "min": 1, "max": total}]
    assert checked(bundle_of(home, path)).consistent


def test_a_large_run_is_complete_and_holds_no_episode_for_long(
    database: Database, tmp_path: Path
) -> None:
    home, peaks = tmp_path / "home", {}
    settings = settings_for(
        database,
        home,
        dataset_roots=(tmp_path,),
        outbound_allow=("127.0.0.1",),
        # Nobody else is there to take anything over, however long the process is kept waiting.
        lease_seconds=60.0,
    )
    with construct() as url, served(create_app(settings)) as client:
        ada = client.registered("ada")
        for total in (FEW, MANY):
            path = committed_run(ada, tmp_path, url, total)
            peaks[total] = peak_of_run(ada, path, total)
            assert_complete(database, ada, home, path, total)
    assert peaks[MANY] - peaks[FEW] < GROWTH_BYTES * (MANY - FEW)
