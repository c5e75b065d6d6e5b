"""A bundle as others get it: as one file, or with leaves in place of what is withheld.

Source: docs/disclosure.md.
"""

import shutil
import tarfile
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import IO

from theatre.engine.canonical_json import JsonObject, canonical_line, parse_object
from theatre.engine.errors import BundleError
from theatre.engine.evidence_bundle import COIN
from theatre.transparency.disclosure import SaltedLine
from theatre.transparency.errors import DisclosureError

EPISODES = "episodes.jsonl"
_EVIDENCE = ("ground_truth", "invocations")


def publish_bundle(
    bundle: Path, target: Path, episodes: Sequence[SaltedLine], closed: Collection[int]
) -> None:
    """Write to the new folder `target` what others may have of `bundle`.

    `closed` are the episodes, from 1, of which they get the leaf alone. DisclosureError where
    there is something at `target`, and for a bundle with what people said of episodes.
    """
    if target.exists():
        raise DisclosureError(f"expected a new folder, got {str(target)!r:.200}, which is there")
    if (bundle / "hitl").exists():
        # What people wrote of an episode would tell what is withheld.
        raise DisclosureError("expected a bundle without ratings to publish in part, got one")
    ignored = shutil.ignore_patterns(COIN, *_EVIDENCE)
    shutil.copytree(bundle, target, ignore=ignored)
    (target / EPISODES).write_bytes(b"".join(_lines(episodes, closed)))


def _lines(episodes: Sequence[SaltedLine], closed: Collection[int]) -> Iterator[bytes]:
    for seq, one in enumerate(episodes, 1):
        if seq in closed:
            yield canonical_line({"seq": seq, "leaf": one.leaf.hex()})
            continue
        document: JsonObject = {"seq": seq, "salt": one.salt.hex(), "seed": one.seed}
        yield canonical_line(document | {"line": parse_object(one.line)})


def unpack_bundle(packed: Path | IO[bytes], target: Path) -> None:
    """Put the files of a bundle's archive into `target`, without the folder they are in.

    Raises BundleError for anything but plain files inside a folder, and for what is no archive.
    """
    name, file = (packed, None) if isinstance(packed, Path) else (None, packed)
    try:
        with tarfile.open(name, fileobj=file) as archive:
            # Not `extractall`: Debian 12's Python 3.11.2 has no filters yet.
            for member in archive:
                parts = PurePosixPath(member.name).parts
                content = archive.extractfile(member) if member.isfile() else None
                if content is None or len(parts) < 2 or not {"..", "/"}.isdisjoint(parts):  # noqa: PLR2004 - the folder and a name in it
                    raise BundleError(f"expected the files of a bundle, got {member.name[:100]!a}")
                place = target.joinpath(*parts[1:])
                place.parent.mkdir(parents=True, exist_ok=True)
                with content, place.open("wb") as written:
                    shutil.copyfileobj(content, written)
    except (tarfile.TarError, EOFError) as error:
        raise BundleError(f"expected the archive of a bundle, got {error}") from error
