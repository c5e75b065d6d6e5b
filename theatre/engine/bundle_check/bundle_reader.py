"""An evidence bundle read with the standard library alone, for the checks of `verify_bundle.py`.

Written from docs/contract/evidence.md. What cannot be read, or has another form, raises: the check
that asked for it fails.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from theatre.engine.bundle_check.arithmetic import (
    DECLINED,
    NOT_APPLICABLE,
    PROOFS,
    REQUIRED,
    UNSCORED,
    Document,
    Rating,
    Tally,
    published,
    rated,
    rating_findings,
    recorded_answers,
    usage_of,
)
from theatre.engine.bundle_check.data_audit import BaselineDraw, DataAudit
from theatre.engine.bundle_check.measures import (
    Labelled,
    certified,
    committed_qualifications,
    counted_controls,
    labelled_criteria,
    measure_findings,
    near_corrected,
)
from theatre.engine.bundle_check.plain_json import DefectError, canonical, parsed
from theatre.engine.bundle_check.plain_records import (
    Asked,
    Committed,
    Draws,
    asked_of,
    committed_hops,
    episode_line,
    merkle_root,
    salted_leaf,
    sha256,
)

WITHOUT_TRUTH: Final = {
    "contains_terms",
    "debate_judge",
    "debate_quality",
    "freshness_decay",
    "harness_score",
    "json_schema",
    "lexical_precision",
    "llm_judge",
    "record_completeness",
    "timestamp_order",
}
"""Scorers that hold an answer against no expectation unless `expected` names one."""
MAX_BYTES: Final = 256 * 1024 * 1024
PER_FOLDER, PER_PART = 1000, 1000
COIN: Final = re.compile(rb"[0-9a-f]{64}\n")
INDEX: Final = re.compile("0|[1-9][0-9]{0,8}")
"""An item of an array in a dotted path."""
NOWHERE: Final = object()


def stored(path: str) -> cached_property[Any]:
    """Return the member of `Evidence` that reads a JSON file once."""
    return cached_property(lambda evidence: evidence.document(path))


@dataclass
class Evidence:
    """A bundle's folder; what is read is cached, what cannot be read raises DefectError."""

    folder: Path
    now: datetime
    kept: bytes | None = None
    notes: list[str] = field(default_factory=list)

    @cached_property
    def paths(self) -> list[str]:
        """The paths of all files of the evidence, by their bytes."""
        found = []
        for root, folders, files in os.walk(self.folder):
            for name in [*folders, *files]:
                path = Path(root, name)
                # A link could lead to a file that changes after the check, or never ends.
                if path.is_symlink() or not (path.is_dir() or path.is_file()):
                    raise DefectError(f"expected files and folders only, got {name!r:.80}")
            found += [Path(root, name).relative_to(self.folder).as_posix() for name in files]
        return sorted(set(found) - PROOFS, key=os.fsencode)

    def raw(self, path: str) -> bytes:
        """Return the bytes of a file."""
        try:
            if (self.folder / path).stat().st_size > MAX_BYTES:
                raise DefectError(f"{path}: more than {MAX_BYTES} bytes")
            # What `paths` refuses is asked for all the same: a pipe, or a link to a device.
            if not (self.folder / path).is_file():
                raise DefectError(f"{path}: no file")
            return (self.folder / path).read_bytes()
        except (OSError, ValueError) as error:
            raise DefectError(f"{path}: cannot be read") from error

    def document(self, path: str) -> Any:  # noqa: ANN401 - any JSON value
        """Return the value of a JSON file."""
        return parsed(self.raw(path), path)

    def lines(self, path: str) -> list[tuple[bytes, Any]]:
        """Return the lines of a JSON lines file, each with its value."""
        raw = self.raw(path)
        if raw and not raw.endswith(b"\n"):
            raise DefectError(f"{path}: expected a line feed at the end")
        pieces = raw.split(b"\n")[:-1]
        return [(piece, parsed(piece, f"{path}, line {n}")) for n, piece in enumerate(pieces, 1)]

    def values(self, path: str) -> list[Any]:
        """Return the values of a JSON lines file."""
        return [value for _, value in self.lines(path)]

    template = stored("template.json")
    receipt = stored("commitment_receipt.json")
    certificate = stored("certificate.json")
    aggregate = stored("scores/aggregate.json")
    data_audit = stored("scores/data_audit.json")
    baselines = stored("scores/baselines.json")
    resolution = stored("resolution.json")

    @cached_property
    def reproduction(self) -> Document | None:
        """What a bundle concludes with whose coin was public; None where there is a certificate."""
        if "certificate.json" in self.paths or "reproduction.json" not in self.paths:
            return None
        return self.document("reproduction.json")  # type: ignore[no-any-return]

    @property
    def required(self) -> set[str]:
        """The files that every bundle has, and the one that it concludes with."""
        certified = self.reproduction is None
        return {*REQUIRED, "certificate.json" if certified else "reproduction.json"}

    @cached_property
    def trail(self) -> list[Document]:
        """The entries of the audit trail."""
        return self.values("audit_trail.jsonl")

    def details(self, event: str) -> list[Document]:
        """Return the details of all entries of one sort."""
        return [entry["detail"] for entry in self.trail if entry["event_type"] == event]

    @property
    def activated(self) -> Document:
        """What the trail says of the start of the run."""
        (activated,) = self.details("activated")
        return activated

    @property
    def policy(self) -> Document:
        """The execution policy as it is committed, without what it leaves to defaults."""
        return self.template.get("execution_policy") or {}

    @property
    def rubrics(self) -> dict[str, Document]:
        """Rubric step → what is asked of people there."""
        entries = self.template.get("hitl_steps") or []
        by_step = {entry["step_id"]: entry for entry in entries}
        if len(by_step) != len(entries):  # of two entries one would be asked, and one be shown
            raise DefectError("template.json: expected a rubric for each step_id, got one twice")
        return by_step

    @cached_property
    def commitment_hash(self) -> str:
        """The commitment hash, computed."""
        template = self.template
        committed = {
            "dataset_hashes": template["dataset_hashes"],
            "template": template,
            "version_pins": template["version_pins"],
        }
        return sha256(canonical(committed))

    @cached_property
    def coin(self) -> bytes:
        """The coin that the bundle reveals."""
        line = self.raw("coin.txt")
        if not COIN.fullmatch(line):
            raise DefectError("coin.txt: expected 64 hex digits and a line feed")
        return bytes.fromhex(line.decode("ascii"))

    @property
    def coin_sha256(self) -> str:
        """The hash of the coin."""
        return sha256(self.coin)

    @cached_property
    def draws(self) -> Draws:
        """What the coin draws."""
        return Draws(self.coin, self.commitment_hash, self.run_nonce)

    @cached_property
    def run_nonce(self) -> bytes:
        """The nonce of the log that had the commitment; empty without one."""
        return bytes.fromhex(self.activated.get("run_nonce", ""))

    @cached_property
    def config(self) -> Document:
        """What the template says of construct and data."""
        return self.template["product_theatre_config"]  # type: ignore[no-any-return]

    @cached_property
    def chain(self) -> list[str]:
        """The constructs of an episode in the order of calls."""
        steps = [
            step["construct_id"]
            for step in self.template["resolution_programme"]
            if step["type"] == "construct_invocation"
        ]
        return list(self.config.get("construct_chain") or dict.fromkeys(steps))

    @cached_property
    def committed(self) -> Committed:
        """What the records are checked against."""
        template = self.template
        programme = template["resolution_programme"]
        invoked = [step for step in programme if step["type"] == "construct_invocation"]
        drawn = sorted(
            (episode["episode_id"] for episode in self.dataset),
            key=lambda one: self.draws.draw("repeat", one),
        )
        return Committed(
            theatre_id=self.receipt["theatre_id"],
            draws=self.draws,
            hops=committed_hops(template, self.chain),
            runner=self.config.get("episode_runner", "single_call"),
            policy=self.policy,
            input_spec=invoked[0].get("input_spec") or {},
            activated=self.activated,
            repeated=set(drawn[: self.policy.get("deterministic_sample", 0)]),
            answers=self.answers,
        )

    @property
    def answers(self) -> dict[str, Document] | None:
        """The lines of a finished log by episode; None where a construct was to be called."""
        if self.config["adapter_type"] != "imported":
            return None
        lines = self.values(f"ground_truth/{self.config['adapter_endpoint']}.jsonl")
        return recorded_answers(lines)

    @cached_property
    def dataset(self) -> list[Document]:
        """The episodes of the ground truth."""
        episodes = self.values("ground_truth/dataset.jsonl")
        ids = [episode["episode_id"] for episode in episodes]
        # The same question under one id would count twice.
        if len(set(ids)) != len(ids) or not all(isinstance(one, str) for one in ids):
            raise DefectError("ground_truth/dataset.jsonl: expected a new episode_id on each line")
        return episodes

    @cached_property
    def gold(self) -> dict[str, Document]:
        """The gold labels by episode."""
        if "ground_truth/gold_labels.jsonl" not in self.paths:
            return {}
        lines = self.values("ground_truth/gold_labels.jsonl")
        return {line["episode_id"]: line["label"] for line in lines}

    def gold_is_unpinned(self) -> bool:
        """Return whether gold labels are named without a hash, as a 2.0.1 template can."""
        name = self.config.get("gold_label_dataset_id", "gold_labels")
        named = self.config.get("gold_label_set") is not None
        return named and name not in self.template["dataset_hashes"]

    def ground_truth_files(self) -> dict[str, str]:
        """File below `ground_truth/` → the name of the dataset that it is."""
        gold = self.config.get("gold_label_dataset_id", "gold_labels")
        files = {"dataset.jsonl": self.config["replay_dataset_id"]}
        if self.config.get("gold_label_set") is not None and not self.gold_is_unpinned():
            files["gold_labels.jsonl"] = gold
        return files | {f"{name}.jsonl": name for name in self.config.get("dataset_paths") or {}}

    @cached_property
    def qualifications(self) -> dict[str, Document | None]:
        """Criterion → the qualification that the template relies on; None for one that is none."""
        files = {name: file for file, name in self.ground_truth_files().items()}
        return committed_qualifications(
            self.template,
            lambda name: [raw for raw, _ in self.lines(f"ground_truth/{files[name]}")],
        )

    @cached_property
    def measures(self) -> Document:
        """The certificate's members on what the measures are worth."""
        pins = self.receipt["scorer_pins"]
        kinds = self.receipt.get("scorer_kinds") or {}
        labelled = labelled_criteria(self.template, kinds, self.labelled)
        found = certified(
            self.template, pins, self.qualifications, self.aggregate, self.controls, labelled
        )
        near_corrected(found["corrected_scores"] or {}, self.certificate["corrected_scores"])
        return found

    def labelled(self, name: str, step_id: str) -> Labelled:
        """Return what people said at a step of the answers of a criterion, next to its scores."""
        rating, said = self.ratings[step_id], {}
        for line in self.results[1]:
            if line["outcome"] == "scored" and line["scores"][name] is not None:
                said[line["episode_id"]] = float(line["scores"][name])
        pairs = [
            (float(sum(row, Fraction(0)) / len(row)), said.pop(item))
            for item, row in zip(self.drawn_items(self.rubrics[step_id]), rating.rows, strict=True)
            if row and item in said
        ]
        clustered = any(one.get("cluster_key") is not None for one in self.dataset)
        return Labelled(step_id, rating.scorers, pairs, [*said.values()], clustered)

    @property
    def controls(self) -> dict[str, Document]:
        """Criterion → what the resolution counts of control items."""
        return counted_controls(self.template, self.resolution["steps"])

    @property
    def measure_findings(self) -> list[str]:
        """The findings on what the measures are worth."""
        return [
            *measure_findings(self.qualifications, self.controls),
            *self.results[0].narrowed(self.aggregate),
            *rating_findings(
                self.template,
                (self.activated.get("authors") or {}).values(),
                ((one["step_id"], one["scorer"]) for one in self.details("human_score")),
                self.aggregate["human_scores"],
            ),
        ]

    @cached_property
    def records(self) -> dict[int, tuple[bytes, Asked]]:
        """Sequence number → the record's bytes with its line feed, and what it says."""
        records: dict[int, tuple[bytes, Asked]] = {}
        last = 0
        for path in (one for one in self.paths if one.startswith("invocations/")):
            for line, (raw, value) in enumerate(self.lines(path), 1):
                asked = asked_of(self.committed, self.dataset, value)
                # In its place, so that no episode is there twice with the better of two answers.
                if path != path_of(asked.seq, len(self.dataset)) or asked.seq <= last:
                    raise DefectError(f"{path}, line {line}: a record of episode {asked.seq}")
                records[asked.seq], last = (raw + b"\n", asked), asked.seq
        return records

    @cached_property
    def episode_lines(self) -> list[tuple[bytes, bytes]]:
        """Salt and line of each episode, in the order of the dataset."""
        questions = self.lines("ground_truth/dataset.jsonl")
        results = self.lines("scores/per_episode.jsonl")
        found = []
        pairs = zip(questions, results, strict=True)
        for seq, ((question, episode), (result, _)) in enumerate(pairs, 1):
            name = episode["episode_id"]
            record = self.records[seq][0] if seq in self.records else None
            line = episode_line(question.decode(), self.gold.get(name), record, result)
            found.append((self.draws.draw("salt", name), line))
        return found

    @property
    def episode_root(self) -> str:
        """The root over the salted lines of all episodes."""
        return merkle_root([salted_leaf(salt, line) for salt, line in self.episode_lines])

    @cached_property
    def results(self) -> tuple[Tally, list[Document]]:
        """The run added up from the scores in its lines, and these lines as they must be."""
        stated = self.values("scores/per_episode.jsonl")
        if len(stated) != len(self.dataset):
            raise DefectError(f"expected a line for each of {len(self.dataset)} episodes")
        tally = Tally(self.template, self.commitment_hash, len(self.dataset))
        counts = self.aggregate["score_counts"]
        declined = {name: counts[name][DECLINED] for name in tally.plan.ids}
        lines = []
        for seq, (episode, line) in enumerate(zip(self.dataset, stated, strict=True), 1):
            asked = self.records[seq][1] if seq in self.records else None
            success = asked is not None and asked.status == "success" and not tally.ended
            results = {
                name: self.result(name, episode, line["scores"], declined, success=success)
                for name in tally.plan.ids
            }
            lines.append(
                tally.add(
                    seq=seq,
                    episode_id=episode["episode_id"],
                    status=None if asked is None else asked.status,
                    results=results,
                    cluster_key=episode.get("cluster_key"),
                    confidence=None if asked is None else asked.confidence,
                    repeats=[
                        (status, own_results(results, line, at))
                        for at, status in enumerate(() if asked is None else asked.statuses)
                        if not tally.ended and tally.plan.repeats > 1
                    ],
                )
            )
        return tally, lines

    def result(
        self,
        name: str,
        episode: Document,
        scores: Document,
        declined: dict[str, int],
        *,
        success: bool,
    ) -> float | str:
        """Return the score that a line states, or which gap it has.

        A line does not tell `declined` from `unscored`. No mean differs between the two: as many as
        the aggregate counts as declined are taken for that.
        """
        if self.expectation(name, episode) is NOWHERE:
            return NOT_APPLICABLE
        if not success:
            return 0.0
        stated = scores[name]
        if isinstance(stated, int | float):
            return stated
        declined[name] -= 1
        return UNSCORED if declined[name] < 0 else DECLINED

    def scorer(self, name: str) -> tuple[str, Document]:
        """Return the scorer of a criterion, and its parameters."""
        scorers = (self.template.get("scoring") or {}).get("criteria_scorers")
        if not scorers:
            return "exact_match", {"field": name, "expected": name}
        return scorers[name]["scorer"], scorers[name].get("params") or {}

    def expectation(self, name: str, episode: Document) -> object:
        """Return what an answer is checked against on a criterion (docs/scorers.md).

        NOWHERE where the ground truth does not hold what it asks for: it does not apply.
        """
        scorer, params = self.scorer(name)
        path, truth = params.get("expected"), episode.get("expected_output")
        if path is None:
            return NOWHERE if truth is None and scorer not in WITHOUT_TRUTH else truth
        if path.startswith("gold:"):
            path, truth = path.removeprefix("gold:"), self.gold.get(episode["episode_id"])
        if truth is None:
            return NOWHERE
        return value_at(truth, path.split(".")) if path else truth

    def no_baselines(self, name: str) -> str | None:
        """Return why a criterion has no baselines, as far as the template says it."""
        return "human" if self.results[0].plan.human.get(name) == 1 else None

    @cached_property
    def counted(self) -> tuple[DataAudit, BaselineDraw]:
        """What the questions of the run are worth, and the episodes that baselines are about."""
        tally, lines = self.results
        audit, draw = DataAudit(tally.plan.ids, canonical), BaselineDraw(self.commitment_hash)
        for episode, line in zip(self.dataset, lines, strict=True):
            if line["outcome"] == "not_run":
                continue
            name, label = episode["episode_id"], self.gold.get(episode["episode_id"])
            sent = (
                self.records[line["seq"]][1].sent
                if self.committed.single_call
                else episode["input_data"]
            )
            held = {
                one: value
                for one in tally.plan.ids
                if (value := self.expectation(one, episode)) is not NOWHERE
            }
            question = audit.question(
                sent=sent,
                truths=[episode.get("expected_output"), label],
                expectations=held,
                cluster_key=episode.get("cluster_key"),
            )
            draw.add(name, line["seq"], held, question.expected)
            audit.add(question, line)
        return audit, draw

    def drawn_items(self, entry: Document) -> list[str]:
        """Return the episodes whose answers people are asked about at a rubric step."""
        scored = [line["episode_id"] for line in self.results[1] if line["outcome"] == "scored"]
        scored.sort(key=lambda one: self.draws.draw("item", one))
        return scored[: entry.get("items", 1)]

    @cached_property
    def ratings(self) -> dict[str, Rating]:
        """Rubric step → what people gave there."""
        completed = {detail["step_id"] for detail in self.details("step_completed")}
        ratings = {}
        for step_id, entry in self.rubrics.items():
            path = f"hitl/{step_id}.jsonl"
            there = path in self.paths and step_id in completed
            lines = self.values(path) if there else []
            ratings[step_id] = rated(entry, self.drawn_items(entry), lines)
        return ratings

    @cached_property
    def human_scores(self) -> Document | None:
        """The member of that name in the aggregate, but for the machine means."""
        machine = self.results[0].machine_means()
        parts = {}
        for step in self.template["resolution_programme"]:
            if step["type"] == "aggregation":
                break
            if step["type"] != "hitl_rubric":
                continue
            entry, rating = self.rubrics[step["step_id"]], self.ratings[step["step_id"]]
            criterion = entry.get("criterion_id")
            parts[step["step_id"]] = {
                "criterion_id": criterion,
                "share": entry.get("share"),
                "machine": None if criterion is None else published(machine[criterion]),
                "human": published(rating.mean),
                "items": len(self.drawn_items(entry)),
                "scorers": rating.scorers,
                "agreement": rating.agreement(),
            }
        return parts or None

    @cached_property
    def computed(self) -> Document | None:
        """What the programme commits to the aggregate, as `resolution.json` has it."""
        wanted = [
            step["step_id"]
            for step in self.template["resolution_programme"]
            if step["type"] == "deterministic_computation"
            and (step.get("input_spec") or {}).get("in_aggregate") is True
        ]
        ended = {step["step_id"]: step for step in self.resolution["steps"]}
        outputs = {
            name: ended[name]["result"]["output"] if ended[name]["status"] == "completed" else None
            for name in wanted
        }
        return outputs or None

    @cached_property
    def recomputed(self) -> Document:
        """The aggregate as it must be, without `results_hash`."""
        stated = self.aggregate
        people = {
            entry["criterion_id"]: self.ratings[step_id].mean
            for step_id, entry in self.rubrics.items()
            if entry.get("share") is not None and entry.get("criterion_id") is not None
        }

        def bounds(name: str, method: str) -> tuple[float | None, float | None]:
            interval = stated["score_intervals"][name]
            low, high = interval["low"], interval["high"]
            if interval["method"] == "undefined" and "mixed" in method:
                return None, None
            if bool in {type(low), type(high)} or not 0 <= low <= high <= 1:
                raise DefectError(f"score_intervals/{name}: expected 0 ≤ low ≤ high ≤ 1")
            self.notes.append(
                f"aggregate: the {method} bounds of {name} are as the bundle has them"
            )
            return low, high

        def calibrated(_: Mapping[int, int]) -> tuple[float, float]:
            ece = stated["calibration"]["ece"]
            mean, upper = ece["expected_if_calibrated"], ece["upper_95_if_calibrated"]
            if bool in {type(mean), type(upper)} or not 0 <= mean <= upper <= 1:
                raise DefectError("calibration/ece: expected 0 ≤ mean ≤ upper ≤ 1 by chance")
            return mean, upper

        return self.results[0].aggregate(
            bounds=bounds,
            calibrated=calibrated,
            people=people,
            human_scores=self.human_scores,
            computed=self.computed,
        )

    @cached_property
    def recorded(self) -> list[Asked]:
        """What the records that count say, in the order of the dataset."""
        _, lines = self.results
        counted = [line["seq"] for line in lines if line["outcome"] != "not_run"]
        return [self.records[seq][1] for seq in counted]

    @property
    def differences(self) -> int:
        """How many episodes were asked a second time and answered otherwise."""
        return sum(asked.differs for asked in self.recorded)

    @cached_property
    def usage(self) -> Document | None:
        """What the calls took, added up from the records."""
        return usage_of(self.template, (call for asked in self.recorded for call in asked.taken))

    @cached_property
    def version_source(self) -> str:
        """Who says what version it was: the least of what the records say."""
        found = {source for asked in self.recorded for source in asked.sources}
        return next((one for one in ("claimed", "declared") if one in found), "computed")


def own_results(results: Document, line: Document, at: int) -> Document:
    """Return what a line says of one repeat: its scores, and the gaps of the episode."""
    stated = line["repeats"]["scores"]
    return {
        name: stated[name][at] if stated[name] is not None else result
        for name, result in results.items()
    }


def value_at(value: Any, steps: list[str]) -> object:  # noqa: ANN401 - any JSON value
    """Return what a value holds at a dotted path, else NOWHERE."""
    for step in steps:
        if isinstance(value, dict) and step in value:
            value = value[step]
        elif isinstance(value, list) and INDEX.fullmatch(step) and int(step) < len(value):
            value = value[int(step)]
        else:
            return NOWHERE
    return value


def path_of(seq: int, episodes: int) -> str:
    """Return the file in which the record of an episode lies."""
    if episodes <= PER_FOLDER:
        return f"invocations/episode_{seq:06d}.json"
    return f"invocations/part-{(seq - 1) // PER_PART + 1:05d}.jsonl"
