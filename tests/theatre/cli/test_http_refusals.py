"""Constructs behind HTTP that cannot be called, are gone, or come back: what a run makes of it."""

import asyncio
import shutil
import signal
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.theatre.cli.doubler import EPISODES, SERVED, double, run, write_module, write_theatre
from tests.theatre.echelon_process import ECHELON, ended, processes_that_mention, started, until
from tests.theatre.forked_echelon import forked
from tests.theatre.oracles.loopback import Received, serving
from theatre.engine.state_machine import TheatreState
from theatre.files.run_journal import TRAIL
from theatre.files.theatre_store import FileTheatreStore
from theatre.oracles.construct_registry import ConstructRegistry, construct_version
from theatre.oracles.isolation import means

FILES = 'folder = "."\nfiles = ["doubling.py"]\n'
LOCAL = f"""
[constructs.doubler]
argv = ["{{python}}", "{{folder}}/doubling.py"]
{FILES}"""
REMOTE = """
[constructs.doubler]
url = "https://construct.example/"
"""
DIES = f"""
[constructs.doubler]
argv = ["{{python}}", "-c", "raise SystemExit('no settings')", "{{port}}"]
serves_http = true
network = true
{FILES}"""
NEVER_OPENS = f"""
[constructs.doubler]
argv = ["sh", "-c", "echo warming up; exec sleep 1000 # {{port}}"]
start_seconds = 1.5
serves_http = true
network = true
{FILES}"""

# It knows the test's folder by its own temporary one, which lies there.
SLOW_AT_FIRST = """
note="$TMPDIR/../../started"
[ -e "$note" ] && exec "$1" -m theatre.construct_kit --port "$2" --folder "$3" doubling:double
: > "$note"
exec sleep 1000
"""
STARTED_BY_A_SHELL = """
[constructs.doubler]
argv = ["sh", "{folder}/start.sh", "{python}", "{port}", "{folder}"]
folder = "."
files = ["doubling.py", "start.sh"]
start_seconds = 600
serves_http = true
network = true
"""


class Refusal(NamedTuple):
    """A way to name a construct, and what comes of it."""

    registry: str
    adapter_type: str
    endpoint: str | None
    code: int
    error_code: str
    message: str


REFUSED = {
    "unknown": Refusal(
        SERVED, "http", "construct:nobody", 3, "construct-unknown", "expected construct nobody in "
    ),
    "url as local": Refusal(
        REMOTE,
        "local",
        "construct:doubler",
        5,
        "construct-transport",
        "expected doubler with an argv, got one with a url: its adapter is http",
    ),
    "served as local": Refusal(
        SERVED,
        "local",
        None,
        5,
        "construct-transport",
        "expected doubler to speak on stdin, got one that serves HTTP: its adapter is http",
    ),
    "local as http": Refusal(
        LOCAL,
        "http",
        None,
        5,
        "construct-transport",
        "expected doubler with a url, or as a program that serves_http, got one that speaks on "
        "stdin: "
        "its adapter is local",
    ),
    "registered as python": Refusal(
        SERVED,
        "python",
        "construct:doubler",
        5,
        "construct-transport",
        "expected module:name for the python construct doubler, got construct:doubler: "
        "the adapter of a registered construct is local or http",
    ),
    "loopback by address": Refusal(
        SERVED,
        "http",
        "http://127.0.0.1:9/",
        5,
        "endpoint-not-allowed",
        "expected a public address for 127.0.0.1 port 9, got 127.0.0.1, which is loopback; only "
        "the operator can allow it: name it in ECHELON_OUTBOUND_ALLOW: export "
        "ECHELON_OUTBOUND_ALLOW=127.0.0.1:9",
    ),
    "loopback by name": Refusal(
        SERVED,
        "http",
        "http://localhost:9/",
        5,
        "endpoint-not-allowed",
        "which is loopback; only the operator can allow it: name it in ECHELON_OUTBOUND_ALLOW: "
        "export ECHELON_OUTBOUND_ALLOW=localhost:9",
    ),
    "ends at once": Refusal(
        DIES,
        "http",
        None,
        8,
        "construct-unreachable",
        "it printed:\nno settings\n[the program ended: exit code 1]",
    ),
    "never opens its port": Refusal(
        NEVER_OPENS,
        "http",
        None,
        8,
        "construct-unreachable",
        "within 1.5 s, got no connection; it printed:\nwarming up",
    ),
}

UNCOMMITTED = {"unknown", "loopback by address", "loopback by name"}
"""Refused before anything is committed."""


@pytest.mark.parametrize("case", REFUSED)
def test_a_construct_that_cannot_be_called_is_refused_with_a_reason_and_nothing_is_recorded(
    case: str, tmp_path: Path
) -> None:
    refusal = REFUSED[case]
    version = write_module(tmp_path, refusal.registry)
    (tmp_path / "constructs.toml").write_text(refusal.registry)
    template = write_theatre(
        tmp_path, adapter_type=refusal.adapter_type, endpoint=refusal.endpoint, version=version
    )
    answer = run(template)
    error = answer.document["error"]
    assert (answer.code, error["code"]) == (refusal.code, refusal.error_code)
    assert refusal.message in error["message"]
    assert "Traceback" not in answer.stderr
    store = FileTheatreStore(tmp_path / "home")
    left = [] if case in UNCOMMITTED else [(TheatreState.COMMITTED, 0)]
    views = [store.view(theatre_id) for theatre_id in store.theatre_ids()]
    assert [(view.state, view.recorded) for view in views] == left
    assert processes_that_mention(tmp_path) == []


def test_a_service_that_is_not_there_is_waited_for_by_nobody_and_the_run_goes_on_later(
    tmp_path: Path,
) -> None:
    with serving(double) as gone:
        template = write_theatre(tmp_path, adapter_type="http", endpoint=gone.url)
    answer = run(template, allow="127.0.0.1")
    assert (answer.code, answer.document["error"]["code"]) == (8, "construct-unreachable")
    message = answer.document["error"]["message"]
    assert message.startswith(
        f"construct doubler cannot be reached: expected http://127.0.0.1:{gone.port} to accept a "
        "connection, got: "
    )
    with serving(double, port=gone.port):
        again = run(template, allow="127.0.0.1")
    assert again.code == 0
    assert "going on with the unfinished theatre" in again.stderr


def test_a_run_that_goes_on_finds_a_service_gone_before_it_asks_anything(tmp_path: Path) -> None:
    async def four_times(request: Received, writer: asyncio.StreamWriter) -> None:
        if request.envelope["input_data"]["number"] == 5:
            await asyncio.Event().wait()
        await double(request, writer)

    home = tmp_path / "home"
    allowing = (shutil.which("env") or "env", "ECHELON_OUTBOUND_ALLOW=127.0.0.1", ECHELON)
    with serving(four_times) as server:
        template = write_theatre(tmp_path, adapter_type="http", endpoint=server.url)
        words = ("theatre", "run", template, "--json", "--batch-episodes", "1")
        with started(*words, home=home, command=allowing) as process:
            assert server.has_been_asked(times=5)
            process.send_signal(signal.SIGINT)
            assert ended(process).code == 8
    answer = run(template, allow="127.0.0.1")
    assert (answer.code, answer.document["error"]["code"]) == (8, "construct-unreachable")
    (theatre,) = (home / "theatres").iterdir()
    view = FileTheatreStore(home).view(theatre.name)
    assert (view.state, view.recorded) == (TheatreState.ACTIVE, 4)
    with serving(double, port=server.port) as back:
        assert run(template, allow="127.0.0.1").code == 0
        assert len(back.received) == EPISODES - 4


def test_a_theatre_that_has_all_its_answers_is_resolved_though_nobody_is_there(
    tmp_path: Path,
) -> None:
    with serving(double) as server:
        template = write_theatre(tmp_path, adapter_type="http", endpoint=server.url)
        answer = run(template, allow="127.0.0.1")
    trail = Path(answer.document["bundle_path"]).with_name(TRAIL)
    kept = [
        line for line in trail.read_bytes().splitlines(keepends=True) if b'"resolved"' not in line
    ]
    trail.write_bytes(b"".join(kept))
    again = run(template, allow="127.0.0.1")
    assert (again.code, again.document) == (0, answer.document)


@pytest.mark.parametrize("entries", ["nonsense:x:y", "127.0.0.1:0", "10.0.0.0/99"])
def test_a_mistaken_list_of_allowed_hosts_is_refused_by_the_name_of_its_variable(
    entries: str, tmp_path: Path
) -> None:
    template = write_theatre(tmp_path, adapter_type="http", endpoint="https://construct.example/")
    answer = run(template, allow=entries)
    error = answer.document["error"]
    assert (answer.code, error["code"]) == (5, "outbound-policy-invalid")
    assert error["message"].startswith("ECHELON_OUTBOUND_ALLOW: expected ")


def test_a_run_stopped_while_a_program_starts_leaves_nothing_and_goes_on_later(
    tmp_path: Path,
) -> None:
    # Isolated, it could leave no note.
    more = {means.REFUSED: "namespaces,landlock,other-user"}
    write_module(tmp_path)
    (tmp_path / "start.sh").write_text(SLOW_AT_FIRST)
    (tmp_path / "constructs.toml").write_text(STARTED_BY_A_SHELL)
    construct = ConstructRegistry.load(tmp_path / "constructs.toml").find("doubler")
    template = write_theatre(tmp_path, adapter_type="http", version=construct_version(construct))
    note = tmp_path / "started"
    home = tmp_path / "home"
    with started("theatre", "run", template, "--json", home=home, more=more) as process:
        until(note.exists, "the start of the program")
        process.send_signal(signal.SIGTERM)
        answer = ended(process)
    assert (answer.code, answer.document["error"]["code"]) == (8, "interrupted")
    assert processes_that_mention(tmp_path) == []
    assert run(template, more=more).code == 0


def test_a_name_that_does_not_resolve_is_committed_with_a_warning(tmp_path: Path) -> None:
    template = write_theatre(tmp_path, adapter_type="http", endpoint="http://nothing.invalid/")
    answer = forked("theatre", "commit", template, home=tmp_path / "home")
    assert answer.code == 0
    assert answer.stderr == (
        "warning: /product_theatre_config/adapter_endpoint: expected a host name that resolves, "
        "got none that does now\n"
    )
