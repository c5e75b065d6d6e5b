"""However `echelon demo` ends, nothing is left running, and what ended it is told."""

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.backend.embedded_home import EmbeddedHome, command_of, pids
from tests.demonstration import left_by, processes_of
from tests.theatre.echelon_process import echelon, ended, environment, started, until
from theatre.api.workspace import Workspace
from theatre.cli.demo.client import NoAnswerError
from theatre.cli.demo.place import DemoPlace
from theatre.cli.demo.service import ServiceEndedError, started_service, write_constructs

SOAK = os.environ.get("ECHELON_SOAK") == "1"


def children_of(parent: int) -> set[int]:
    """A child that is just about to become another program still has its parent's command."""
    stats = {pid: Path(f"/proc/{pid}/stat") for pid in pids()}
    found = set()
    for pid, stat_file in stats.items():
        with contextlib.suppress(OSError):
            fields = stat_file.read_text(encoding="utf-8").rpartition(")")[2].split()
            if int(fields[1]) == parent:
                found.add(pid)
    return found


def read_until(process: subprocess.Popen[str], text: str) -> None:
    """Read what a demo prints to the line that holds `text`."""
    assert process.stdout is not None
    assert any(text in line for line in process.stdout), process.communicate()


class Checkout:
    """A folder in which demos run one after the other, each to an end of its own."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "a checkout" / ".echelon"
        self.home.parent.mkdir()
        self.temporary = Path(environment(self.home)["TMPDIR"])

    @contextlib.contextmanager
    def demo(self, *, at: str) -> Iterator[subprocess.Popen[str]]:
        """Start a demo and yield it once it has begun the page `at`."""
        with started("demo", home=self.home) as process:
            read_until(process, at)
            yield process

    @contextlib.contextmanager
    def demo_at_work(self) -> Iterator[subprocess.Popen[str]]:
        """Start a demo and yield it once the service has started a construct for it."""
        with self.demo(at="Cartograph claims four skills") as process:
            folders = self.home / "demo" / "temporary"
            until(lambda: [*folders.glob("echelon-construct-*")], "the construct at work")
            yield process

    def running(self, part: str) -> list[int]:
        """What runs here with `part` in its command."""
        return [
            pid for pid in processes_of(self.home) if part in command_of(pid).replace("\0", " ")
        ]

    def await_nothing_left_running(self) -> None:
        """The database's keeper takes the sockets away when it ends, the last of all."""
        sockets = EmbeddedHome(self.home / "demo").cluster.sockets
        until(lambda: not sockets.exists(), "the end of the database")
        until(lambda: not processes_of(self.home), "the end of everything that a demo started")

    def left(self) -> list[str]:
        return left_by(self.home, self.temporary)


@pytest.fixture
def checkout(tmp_path: Path) -> Iterator[Checkout]:
    made = Checkout(tmp_path)
    yield made
    EmbeddedHome(made.home / "demo").end()


def test_however_a_demo_ends_nothing_is_left_running_and_the_next_one_starts(
    checkout: Checkout,
) -> None:
    with checkout.demo_at_work() as demo:
        assert checkout.running("postgres -D")
        demo.kill()
        checkout.await_nothing_left_running()

    with checkout.demo_at_work() as demo:
        (service,) = children_of(demo.pid) & {*checkout.running("-m theatre.cli serve")}
        os.kill(service, signal.SIGKILL)
        bereft = ended(demo)
        assert checkout.left() == []
    assert bereft.code == 1
    assert "error (demo-service-ended): expected the service to go on, got its end" in bereft.stderr

    with checkout.demo_at_work() as demo:
        demo.send_signal(signal.SIGINT)
        stopped = ended(demo)
        assert checkout.left() == []
    assert (stopped.code, stopped.stderr.strip()) == (8, "error (interrupted): interrupted")

    with checkout.demo(at="The service starts") as demo:
        demo.send_signal(signal.SIGTERM)
        stopped = ended(demo)
        assert checkout.left() == []
    assert (stopped.code, stopped.stderr.strip()) == (8, "error (interrupted): interrupted")


@pytest.mark.skipif(not SOAK, reason="a second whole demo: ECHELON_SOAK=1")
def test_a_second_demo_in_the_same_folder_is_as_good_as_the_first(checkout: Checkout) -> None:
    runs = [echelon("demo", "--json", home=checkout.home, patience=300) for _ in range(2)]
    assert [run.code for run in runs] == [0, 0]
    first, second = (run.document for run in runs)
    for name in ("cartograph", "observer", "easel"):
        hashes = {one[name]["certificate"]["results_hash"] for one in (first, second)}
        assert len(hashes) == 1
        assert first[name]["theatre"]["id"] != second[name]["theatre"]["id"]
    assert checkout.left() == []


def test_a_second_demo_at_the_same_time_in_the_same_folder_is_refused(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with DemoPlace.held(Workspace.from_environment({"ECHELON_HOME": str(home)})):
        refused = echelon("demo", "--json", home=home)
    assert refused.code == 6
    assert refused.document["error"]["code"] == "demo-running"
    assert "name another folder in ECHELON_HOME" in refused.document["error"]["message"]


def ask_a_service_that_is_killed(place: DemoPlace) -> None:
    with started_service(place) as service:
        service.address()
        service.process.kill()
        raise NoAnswerError("expected an answer, got none")


def test_a_killed_service_is_waited_for_until_its_database_has_ended(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with DemoPlace.held(Workspace.from_environment({"ECHELON_HOME": str(home)})) as place:
        write_constructs(place.constructs, {})
        try:
            with pytest.raises(ServiceEndedError, match=r"got its end \(exit code -9\)"):
                ask_a_service_that_is_killed(place)
            assert processes_of(home) == []
        finally:
            EmbeddedHome(place.folder).end()


def test_a_service_that_does_not_start_is_quoted(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "demo").mkdir(parents=True)
    (home / "demo" / "postgres").write_text("in the way")
    failed = echelon("demo", "--json", home=home)
    assert failed.code == 1
    error = failed.document["error"]
    assert error["code"] == "demo-service-ended"
    assert "expected the service to start, got its end (exit code 1)" in error["message"]
    assert "File exists" in error["message"]
    assert str(home / "demo" / "service.log") in error["message"]
    assert processes_of(home) == []


def test_no_setting_of_the_caller_reaches_the_demos_service(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ECHELON_DATABASE_URL", "postgresql://a-real-one/echelon")
    monkeypatch.setenv("ECHELON_MODE", "production")
    place = DemoPlace(folder=tmp_path, issuer="a name")
    own = {name: value for name, value in place.environment.items() if name.startswith("ECHELON_")}
    assert own == {
        "ECHELON_HOME": str(tmp_path),
        "ECHELON_CONSTRUCTS": str(tmp_path / "constructs.toml"),
        "ECHELON_ISSUER": "a name",
    }
