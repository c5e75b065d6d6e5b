"""Which user the embedded server runs as, and what that user can reach.

PostgreSQL refuses to run as root. No parent folder is opened up and no user is added for it.
"""

from __future__ import annotations

import os
import pwd
import stat
from dataclasses import dataclass
from pathlib import Path

from backend.errors import EmbeddedServerError

_SHARED = Path("/var/lib/echelon-theatre")
_CANDIDATES = ("echelon", "postgres", "nobody")


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """The user of the server."""

    uid: int
    gid: int
    name: str

    @property
    def is_other(self) -> bool:
        """Tell whether this is another user than that of this process."""
        return self.uid != os.geteuid()

    def give_ownership(self, path: Path) -> None:
        """Give `path` to this user."""
        if self.is_other:
            os.chown(path, self.uid, self.gid)


def service_account() -> Account:
    """Return this process's user; for root, the first of echelon, postgres, nobody that exists."""
    if os.geteuid() != 0:
        return Account(uid=os.geteuid(), gid=os.getegid(), name=str(os.geteuid()))
    for name in _CANDIDATES:
        try:
            found = pwd.getpwnam(name)
        except KeyError:
            continue
        return Account(uid=found.pw_uid, gid=found.pw_gid, name=name)
    raise EmbeddedServerError(
        f"expected one of the users {', '.join(_CANDIDATES)} to run PostgreSQL as, got none of "
        "them: PostgreSQL refuses to run as root; add one, or set ECHELON_DATABASE_URL"
    )


def is_reachable(path: Path, account: Account) -> bool:
    """Tell whether `account` may enter `path` and every folder above it."""
    if not account.is_other:
        return True
    return all(_may_enter(folder, account) for folder in (path, *path.parents))


def make_shared_folder() -> Path:
    """Return a folder of root that every user may enter; it is created if missing."""
    _SHARED.mkdir(mode=0o711, parents=True, exist_ok=True)
    seen = _SHARED.lstat()
    if not stat.S_ISDIR(seen.st_mode) or seen.st_uid != 0 or seen.st_mode & 0o022:
        raise EmbeddedServerError(
            f"expected {_SHARED} to be a folder that only root can write to, got another"
        )
    return _SHARED


def _may_enter(folder: Path, account: Account) -> bool:
    seen = folder.stat()
    if seen.st_uid == account.uid:
        needed = stat.S_IXUSR
    elif seen.st_gid == account.gid:
        needed = stat.S_IXGRP
    else:
        needed = stat.S_IXOTH
    return bool(seen.st_mode & needed)
