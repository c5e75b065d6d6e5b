"""A bundle as it is published where episodes are withheld: leaves stand for what is not open.

Source: docs/disclosure.md.
"""

import shutil
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from theatre.engine.canonical_json import JsonObject, canonical_line, parse_object
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
