"""The committed ground truth: the same bytes, and readable as episodes and gold labels."""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from theatre.engine.bundle_check.folder import BundleFolder
from theatre.engine.bundle_check.json_values import DefectError
from theatre.engine.bundle_check.plan import GOLD_LABELS, REPLAY_DATASET, CommittedPlan
from theatre.engine.bundle_check.report import Cause, CheckId, Ledger
from theatre.engine.canonical_json import JsonObject
from theatre.engine.errors import DatasetError
from theatre.engine.models import GroundTruthEpisode, read_episodes, read_gold_labels


@dataclass(frozen=True, slots=True, kw_only=True)
class GroundTruth:
    """The replay dataset (`total` lines) and the gold labels, or why these cannot be had."""

    total: int
    gold: Mapping[str, JsonObject] | Cause


def check_ground_truth(
    folder: BundleFolder, plan: CommittedPlan, ledger: Ledger
) -> GroundTruth | None:
    """Make the check `datasets`, but for the lines of the replay dataset (see `episodes`).

    None where there is no replay dataset that can be read.
    """
    for path, sha256 in plan.datasets.items():
        try:
            ledger.compare(
                CheckId.DATASETS, f"SHA-256 of {path}", sha256, folder.digest(path).sha256
            )
        except DefectError as defect:
            ledger.wrong(CheckId.DATASETS, defect.expected, defect.actual)
    for path in folder.files:
        if path.startswith("ground_truth/") and path not in plan.datasets:
            ledger.wrong(CheckId.DATASETS, "only committed datasets", f"also {path}")
    try:
        total = folder.digest(REPLAY_DATASET).lines
    except DefectError:
        return None
    return GroundTruth(total=total, gold=_gold(folder, plan, ledger))


def episodes(folder: BundleFolder, ledger: Ledger) -> Iterator[GroundTruthEpisode]:
    """Yield the episodes up to the first line that is none; that one goes to `datasets`."""
    try:
        yield from read_episodes(bare_lines(folder, REPLAY_DATASET))
    except DatasetError as error:
        ledger.wrong(CheckId.DATASETS, f"{REPLAY_DATASET} with one episode a line", str(error))
    except DefectError as defect:
        ledger.wrong(CheckId.DATASETS, defect.expected, defect.actual)


def _gold(
    folder: BundleFolder, plan: CommittedPlan, ledger: Ledger
) -> Mapping[str, JsonObject] | Cause:
    if GOLD_LABELS not in plan.datasets:
        return {}
    try:
        return read_gold_labels(bare_lines(folder, GOLD_LABELS))
    except DatasetError as error:
        ledger.wrong(CheckId.DATASETS, f"{GOLD_LABELS} with one label a line", str(error))
    except DefectError as defect:
        ledger.wrong(CheckId.DATASETS, defect.expected, defect.actual)
    return Cause("the gold labels cannot be read")


def bare_lines(folder: BundleFolder, path: str) -> Iterator[bytes]:
    """Yield the lines of a file without their line feeds; DefectError where it is unreadable."""
    for line in folder.lines(path):
        yield line.removesuffix(b"\n")


def repeated_episodes(
    episodes: Iterable[GroundTruthEpisode], commitment_hash: str, size: int
) -> frozenset[int]:
    """Return the `seq` of the `size` episodes with the smallest digests, streaming.

    A digest is SHA-256(commitment_hash + ":det:" + episode_id): whoever commits a template
    cannot choose which of its episodes are repeated.
    """
    if size == 0:
        return frozenset()
    digests = ((_digest(commitment_hash, episode.episode_id), episode.seq) for episode in episodes)
    return frozenset(seq for _, seq in heapq.nsmallest(size, digests))


def _digest(commitment_hash: str, episode_id: str) -> bytes:
    return hashlib.sha256(f"{commitment_hash}:det:{episode_id}".encode()).digest()
