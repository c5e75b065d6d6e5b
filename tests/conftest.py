"""What the whole suite shares."""

import contextlib
import fcntl
import gc
import os
import shutil
from collections.abc import Generator
from pathlib import Path

import pytest
from _pytest.runner import runtestprotocol
from hypothesis import settings

from tests.demonstration import Demonstration, shared_demonstration
from tests.drawn import drawn
from tests.soak import part_of
from theatre.files.trust_home import TRUST_HOME

pytest_plugins = ["tests.error_details"]
ROOT = Path(__file__).parents[1]
SHARED = Path("/var/lib/echelon-theatre")
"""Where a service of root copies PostgreSQL's programs to that their user cannot reach."""
_ALLOCATIONS = 20_000
_COPIES_BEFORE = pytest.StashKey[frozenset[Path]]()
_LOCKED = pytest.StashKey[int]()
"""Every session on the machine holds it, shared: that folder belongs to all of them."""

# A busy machine is no fault of what is tested: nothing that is drawn has a time limit.
settings.register_profile(
    "untimed", parent=settings.default, deadline=None, max_examples=drawn(160)
)
settings.load_profile("untimed")


def pytest_configure(config: pytest.Config) -> None:
    """Remember which copies of programs there were, in the process that outlives all workers."""
    if not hasattr(config, "workerinput") and SHARED.parent.is_dir():
        config.stash[_LOCKED] = os.open(SHARED.parent, os.O_RDONLY | os.O_CLOEXEC)
        fcntl.flock(config.stash[_LOCKED], fcntl.LOCK_SH)
        config.stash[_COPIES_BEFORE] = frozenset(SHARED.glob("postgresql-*"))


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Leave nothing behind: copies of programs that came with the tests go with the last session.

    Of sessions that overlap the last one may find a copy that an earlier one made, and leaves it.
    """
    before = session.config.stash.get(_COPIES_BEFORE, None)
    if before is None:
        return
    locked = session.config.stash[_LOCKED]
    with contextlib.suppress(BlockingIOError):
        fcntl.flock(locked, fcntl.LOCK_EX | fcntl.LOCK_NB)
        made = set(SHARED.glob("postgresql-*")) - before
        for copy in made:
            shutil.rmtree(copy)
        # Without one of ours it may be a folder that only root can list.
        if made and not any(SHARED.iterdir()):
            SHARED.rmdir()
    os.close(locked)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is left to a part of the soak."""
    for item in items:
        part = part_of(item.nodeid)
        if part is not None:
            item.add_marker(pytest.mark.soak)
            item.add_marker(f"soak_{part}")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not even load what the soak has as a whole where all of that is left out."""
    if config.getoption("markexpr") != "not soak" or not collection_path.is_relative_to(ROOT):
        return None
    return part_of(str(collection_path.relative_to(ROOT))) is not None or None


@pytest.fixture(scope="session", autouse=True)
def issuer(tmp_path_factory: pytest.TempPathFactory) -> Generator[Path]:
    """Give each worker keys and a log of its own: no test writes into those of a person."""
    folder = tmp_path_factory.mktemp("issuer")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(folder))
        patch.setenv(TRUST_HOME, str(folder / "home"))
        yield folder


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Load and collect without the garbage collector."""
    # Nothing that is loaded or collected becomes garbage: looking for some takes a second.
    gc.disable()
    with Path(__file__).open("rb") as turn:
        if hasattr(session.config, "workerinput"):
            _wait_for_the_first(turn.fileno())
        return (yield)


def _wait_for_the_first(turn: int) -> None:
    """Let one worker load and compile what is new alone: the others load what it compiled."""
    try:
        fcntl.flock(turn, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        fcntl.flock(turn, fcntl.LOCK_SH)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Send from a worker what each test came to, and not that its set-up and its end passed.

    Six messages a test are a hundredth of the suite's processor time.
    """
    if not hasattr(item.config, "workerinput"):
        return None
    for report in runtestprotocol(item, log=False, nextitem=nextitem):
        if report.when == "call" or not report.passed:
            item.ihook.pytest_runtest_logreport(report=report)
    return True


def pytest_collection_finish() -> None:
    """Take modules and collected tests out of every later collection of garbage.

    Those come seldom: at the usual threshold they are a twentieth of the suite's processor time.
    """
    gc.freeze()
    gc.set_threshold(_ALLOCATIONS)
    gc.enable()


@pytest.fixture(scope="session")
def demonstration(tmp_path_factory: pytest.TempPathFactory) -> Demonstration:
    """The one run of the demo, whichever worker asks first."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    return shared_demonstration(shared / "demonstration")
