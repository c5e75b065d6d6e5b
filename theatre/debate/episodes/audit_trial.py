"""`debate_audit_trial`: an auditor's recall, precision and steadiness over all planted faults."""

from collections import Counter, defaultdict
from collections.abc import Iterable

from theatre.debate.episodes.fault_scorer import Finding, Gold, findings_in, gold_of, is_located
from theatre.debate.episodes.pairs import NO_PARAMS, Line, lines_of
from theatre.engine.canonical_json import JsonObject
from theatre.engine.models import Computation, ScorerKind
from theatre.engine.scoring.differences import Tally, share_of_pairs


def compute(lines: Iterable[bytes], _params: JsonObject) -> JsonObject:
    """Return the figures of the trial; copies of one debate are one unit of their intervals.

    The result: `planted`, `clean` and `twins` (episodes), `unreadable` (those without findings
    that can be read: they find nothing), `recall` (the turn is found), `type` (its code is, too),
    `precision` (over findings), each with its interval; `by_fault` and `by_twin`, counted; and
    `false_findings`, by code.
    """
    trial = _Trial()
    for line in lines_of(lines):
        gold = gold_of(line.expected.get("judged", line.expected.get("steady")))
        if gold is not None:
            trial.add(line, gold)
    return trial.result()


class _Shares:
    def __init__(self) -> None:
        self._units: dict[str, Tally] = {}

    def add(self, unit: str, hits: int, trials: int) -> None:
        before = self._units.get(unit, Tally(0, 0))
        if trials:
            self._units[unit] = Tally(before.hits + hits, before.pairs + trials)

    def figure(self) -> JsonObject:
        return {
            **share_of_pairs(self._units),
            "hits": sum(unit.hits for unit in self._units.values()),
            "trials": sum(unit.pairs for unit in self._units.values()),
        }


class _Trial:
    def __init__(self) -> None:
        self._kinds: Counter[str] = Counter()
        self._recall, self._type, self._precision = _Shares(), _Shares(), _Shares()
        self._faults: dict[str, Counter[str]] = defaultdict(Counter)
        self._twins: dict[str, Counter[str]] = defaultdict(Counter)
        self._false: Counter[str] = Counter()

    def add(self, line: Line, gold: Gold) -> None:
        answer = line.result if isinstance(line.result, dict) else {}
        found = findings_in(answer.get("findings"))
        self._kinds["unreadable"] += found is None
        twin = line.expected.get("twin")
        if isinstance(twin, str):
            same = found is not None and found == findings_in(answer.get("twin_findings"))
            self._kinds["twins"] += 1
            self._twins[twin] += Counter(pairs=1, unchanged=int(same))
            return
        self._one(_unit(line), gold, found or frozenset())

    def _one(self, unit: str, gold: Gold, found: frozenset[Finding]) -> None:
        right = sum(map(gold.explains, found))
        self._precision.add(unit, right, len(found))
        self._false.update(code for turn, code in found if not gold.explains((turn, code)))
        if gold.code is None:
            self._kinds["clean"] += 1
            return
        located, typed = is_located(gold, found), gold.planted in found
        self._kinds["planted"] += 1
        self._recall.add(unit, int(located), 1)
        self._type.add(unit, int(typed), 1)
        self._faults[gold.code] += Counter(planted=1, located=int(located), typed=int(typed))

    def result(self) -> JsonObject:
        return {
            **{kind: self._kinds[kind] for kind in ("planted", "clean", "twins", "unreadable")},
            "recall": self._recall.figure(),
            "type": self._type.figure(),
            "precision": self._precision.figure(),
            "by_fault": {
                code: {name: counts[name] for name in ("planted", "located", "typed")}
                for code, counts in sorted(self._faults.items())
            },
            "by_twin": {
                name: {"pairs": counts["pairs"], "unchanged": counts["unchanged"]}
                for name, counts in sorted(self._twins.items())
            },
            "false_findings": dict(sorted(self._false.items())),
        }


def _unit(line: Line) -> str:
    debate = line.asked.get("debate")
    return str(debate.get("debate_id")) if isinstance(debate, dict) else line.episode_id


COMPUTATION = Computation(
    name="debate_audit_trial",
    version="1",
    kind=ScorerKind.EXACT,
    params_schema=NO_PARAMS,
    compute=compute,
)
