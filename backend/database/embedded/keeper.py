"""The parent process of the embedded server: stops it when no process uses it any more.

A separate program that needs only the standard library. It is started by its path, isolated, as
`keeper.py USERS ALIVE UID GID SOCKETS COMMAND…`. Users hold a shared lock on the file USERS; when
the kernel gives the keeper the exclusive one, all of them have ended.
ALIVE is locked as long as the keeper lives. UID and GID are those that COMMAND runs as.
"""

import ctypes
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable

_PR_SET_PDEATHSIG = 1
_PATIENCE_SECONDS = 60.0


def main(arguments: list[str]) -> int:
    """Keep one server until it ends; return its exit code."""
    users, alive, uid_text, gid_text, sockets, *command = arguments
    os.setsid()
    if not _locked(alive, fcntl.LOCK_EX | fcntl.LOCK_NB):
        sys.stderr.write("expected to be the only keeper of this server, got another one\n")
        return 1
    uid, gid = int(uid_text), int(gid_text)
    drop = uid != os.geteuid()
    server = subprocess.Popen(  # noqa: S603 - the launcher's own command line
        command,
        cwd="/",
        stdin=subprocess.DEVNULL,
        start_new_session=True,
        user=uid if drop else None,
        group=gid if drop else None,
        extra_groups=[] if drop else None,
        preexec_fn=_stop_with(os.getpid()),  # noqa: PLW1509 - no thread has been started yet
    )
    signal.signal(signal.SIGTERM, lambda *_: server.send_signal(signal.SIGINT))
    threading.Thread(target=_stop_when_unused, args=(users, server), daemon=True).start()
    code = server.wait()
    shutil.rmtree(sockets, ignore_errors=True)
    return code


def _stop_when_unused(users: str, server: subprocess.Popen[bytes]) -> None:
    _locked(users, fcntl.LOCK_EX)
    server.send_signal(signal.SIGINT)
    time.sleep(_PATIENCE_SECONDS)
    server.send_signal(signal.SIGQUIT)


def _locked(path: str, operation: int) -> bool:
    """Lock a file until this process ends; tell whether that was possible."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, operation)
    except BlockingIOError:
        return False
    return True


def _stop_with(keeper: int) -> Callable[[], None]:
    """Return what a new process does to be stopped, on Linux, when the keeper is killed."""

    def ask() -> None:
        if sys.platform == "linux":
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGINT, 0, 0, 0)
            if os.getppid() != keeper:
                os._exit(1)

    return ask


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
