"""A sealed bundle, read for its export: first found intact, then streamed episode by episode."""

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, cast

from theatre.engine.canonical_json import JsonObject, JsonValue, parse_object, sha256_hex
from theatre.engine.errors import BundleError, NotFoundError, ParseError
from theatre.engine.models import (
    JUDGE_SEED,
    JUDGEMENTS,
    EpisodeOutcome,
    GroundTruthEpisode,
    read_episodes,
    read_gold_labels,
)
from theatre.engine.scoring.repeats import answering_repeat, rounds_of

DATASET = "ground_truth/dataset.jsonl"
GOLD = "ground_truth/gold_labels.jsonl"
_SUMS = "SHA256SUMS"
_CERTIFICATE = "certificate.json"
_PART = "[A-Za-z0-9_-][A-Za-z0-9_.-]*"
_SUM = re.compile(f"([0-9a-f]{{64}})  ({_PART}(?:/{_PART})*)\n")


class SealedEpisode(NamedTuple):
    """An episode that was run: its ground truth, its line of scores, its invocation record."""

    truth: GroundTruthEpisode
    label: JsonObject | None
    line: JsonObject
    record: JsonObject


class SealedBundle:
    """One bundle whose files are those that its certificate names."""

    def __init__(self, folder: Path) -> None:
        """Hash every file.

        Raises NotFoundError where there is no bundle and BundleError, naming the file, for one
        that is not what was sealed.
        """
        if not (folder / _CERTIFICATE).is_file():
            raise NotFoundError(f"expected an evidence bundle at {folder}, got none")
        self._folder = folder
        self.certificate = self._document(_CERTIFICATE)
        self._paths = self._intact_paths()
        self.template = self._document("template.json")
        self.aggregate = self._document("scores/aggregate.json")
        self.resolution = self._document("resolution.json")

    def episodes(self) -> Iterator[SealedEpisode]:
        """Yield every episode that was run, in dataset order; BundleError for a gap."""
        labels = read_gold_labels(self._lines(GOLD)) if GOLD in self._paths else {}
        # Either layout: numbers are padded, so that names sort as numbers do.
        paths = sorted(path for path in self._paths if path.startswith("invocations/"))
        records = (parse_object(line) for path in paths for line in self._lines(path))
        record = next(records, None)
        lines = (parse_object(line) for line in self._lines("scores/per_episode.jsonl"))
        for truth, line in zip(read_episodes(self._lines(DATASET)), lines, strict=True):
            own = record if record is not None and record["seq"] == truth.seq else None
            record = record if own is None else next(records, None)
            if line["outcome"] == EpisodeOutcome.NOT_RUN.value:
                continue
            if own is None:
                raise BundleError(f"expected the record of episode {truth.seq}, got none")
            label = labels.get(truth.episode_id)
            yield SealedEpisode(truth=truth, label=label, line=line, record=own)

    def _lines(self, path: str) -> Iterator[bytes]:
        with (self._folder / path).open("rb") as handle:
            for line in handle:
                yield line.removesuffix(b"\n")

    def _document(self, path: str) -> JsonObject:
        try:
            return parse_object((self._folder / path).read_bytes())
        except (OSError, ParseError) as error:
            raise BundleError(f"expected {path} as JSON in the bundle, got: {error}") from error

    def _intact_paths(self) -> frozenset[str]:
        """Return the paths in SHA256SUMS, once they all hash to what is there."""
        try:
            sums = (self._folder / _SUMS).read_bytes()
        except OSError as error:
            raise BundleError(f"expected {_SUMS} in the bundle, got: {error.strerror}") from error
        named = self.certificate.get("evidence_bundle_hash")
        if sha256_hex(sums) != named:
            raise BundleError(f"expected a bundle with hash {named}, got {sha256_hex(sums)}")
        expected = {path: sha256 for sha256, path in _SUM.findall(sums.decode("ascii"))}
        for path, sha256 in expected.items():
            if self._sha256(path) != sha256:
                raise BundleError(f"expected {path} as it was sealed ({sha256}), got other bytes")
        return frozenset(expected)

    def _sha256(self, path: str) -> str | None:
        try:
            with (self._folder / path).open("rb") as handle:
                return hashlib.file_digest(handle, "sha256").hexdigest()
        except OSError:
            return None


def judgements_of(record: JsonObject) -> dict[str, list[JsonObject]]:
    """Return criterion → exchanges about the answer that counts; empty where none were made."""
    return cast("dict[str, list[JsonObject]]", _of_answer(record, record.get(JUDGEMENTS, {})))


def judge_seed_of(record: JsonObject) -> str:
    """Return what the order of what a judge was shown follows from; empty without a judge."""
    return cast("str", _of_answer(record, record.get(JUDGE_SEED, "")))


def _of_answer(record: JsonObject, judged: JsonValue) -> JsonValue:
    """Return what a member about a judge has of the answer that counts."""
    return judged[answering_repeat(rounds_of(record))] if isinstance(judged, list) else judged
