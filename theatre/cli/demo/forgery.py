"""A copy of a bundle in which one recorded answer was changed, for the check to find."""

from __future__ import annotations

import re
import shutil
import tempfile
from pathlib import Path

from theatre.cli.checking import check_folder
from theatre.engine.bundle_check import CheckReport
from theatre.engine.errors import BundleError

FORGED_FILE = "invocations/episode_000001.json"


def check_forgery(bundle: Path, *, scratch: Path) -> CheckReport:
    """Check a copy of `bundle`, made in the folder `scratch`, with one bit of it flipped."""
    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        copy = Path(folder) / bundle.name
        shutil.copytree(bundle, copy)
        target = copy / FORGED_FILE
        target.write_bytes(_with_other_answer(target.read_bytes()))
        return check_folder(copy)


def _with_other_answer(record: bytes) -> bytes:
    """Return `record` with one bit of the first digit of the recorded answer flipped."""
    answer = re.search(rb'"result":\D*', record)
    if answer is None:
        raise BundleError("expected a recorded answer with a number in it, got none")
    forged = bytearray(record)
    forged[answer.end()] ^= 1
    return bytes(forged)
