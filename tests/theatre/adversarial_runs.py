"""The adversarial Observer theatres: for real, or with a construct that a test writes itself."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from tests.theatre.easel_runs import easel_adapters
from tests.theatre.observer_runs import CONSTRUCTS, FIXTURES, GROUND_TRUTH, OBSERVER, run_observer
from tests.theatre.runs import Finished, ScriptedAdapter, Stage
from theatre.api.connections import replace_construct
from theatre.engine.canonical_json import JsonObject, canonical_line, parse_object
from theatre.engine.oracle_contract import OracleInvocationRequest
from theatre.oracles.construct_registry import ConstructRegistry, construct_version

CLEANED, RAW = "product_observer_adversarial_v1", "product_observer_adversarial_raw_v1"

EASEL_CLEANED = "product_easel_adversarial_v1"
EASEL_RAW = "product_easel_adversarial_raw_v1"
CLASSES = ("hidden-unicode", "role-markers", "plain-language")

Twins = dict[str, Any]
Decision = Callable[[JsonObject], JsonObject]


def template_of(name: str) -> JsonObject:
    """Return a shipped template."""
    return parse_object((FIXTURES / "templates" / f"{name}.json").read_bytes())


def run_twins(folder: Path, name: str, *, construct_id: str = OBSERVER) -> Finished:
    """Run a shipped adversarial template with a registered construct."""
    template = template_of(name)
    if construct_id != OBSERVER:
        version = construct_version(ConstructRegistry.load(CONSTRUCTS).find(construct_id))
        template = replace_construct(template, construct_id, version=version)
    return run_observer(folder, construct_id=construct_id, template=template)


def run_easel_twins(folder: Path, name: str) -> Finished:
    """Run a shipped adversarial template with Easel, Artisan and Mint."""
    return Stage(folder, template_of(name), data=FIXTURES).run(easel_adapters())


def asked(folder: Path, name: str, decide: Decision) -> tuple[Finished, ScriptedAdapter]:
    """Run a shipped adversarial template with `decide` in the Observer's place."""
    template = template_of(name)
    pins = cast("dict[str, dict[str, str]]", template["version_pins"])["constructs"]

    def answer(request: OracleInvocationRequest) -> JsonObject:
        return {"output_data": decide(request.input_data)}

    adapter = ScriptedAdapter(answer, pin="http@1", version=pins[OBSERVER])
    return Stage(folder, template, data=FIXTURES).run(adapter), adapter


def twins_of(finished: Finished) -> Twins:
    """Return what the computation over the twins came to."""
    (step,) = [one for one in finished.steps() if one["step_id"] == "compare_twins"]
    assert step["status"] == "completed"
    return cast("Twins", cast("JsonObject", step["result"])["output"])


def memory() -> dict[bytes, JsonObject]:
    """Return the right answer to every labelled input of the Observer's own dataset."""
    inputs = (GROUND_TRUTH / "product_observer_v1.jsonl").read_bytes().splitlines()
    labels = (GROUND_TRUTH / "product_observer_gold_v1.jsonl").read_bytes().splitlines()
    episodes = {one["episode_id"]: one for one in map(parse_object, inputs)}
    known = {}
    for gold in map(parse_object, labels):
        episode = episodes[gold["episode_id"]]
        answer = answered(cast("JsonObject", gold["label"]), str(gold["episode_id"]))
        known[canonical_line(episode["input_data"])] = answer
    return known


def answered(decided: JsonObject, record_id: str) -> JsonObject:
    """Return an answer as the Observer gives it, as far as the twins are compared."""
    return {**decided, "source": {"record_id": record_id}}


def table(header: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """Return a table as the page has it."""
    titles = list(header)
    cells = [titles, *([str(cell) for cell in row] for row in rows)]
    shown = ["| " + " | ".join(line) + " |" for line in cells]
    return "\n".join([shown[0], "|---" * len(titles) + "|", *shown[1:]]) + "\n"


def with_interval(share: Mapping[str, float]) -> str:
    """Return a share or a difference as the page has it."""
    # A minus as it is typeset, so that it is not taken for a dash.
    shown = f"{share['value']:.3f} ({share['low']:.3f} … {share['high']:.3f})"
    return shown.replace("-0.000", "0.000").replace("-", "−")  # noqa: RUF001 - see above


def resistance_rows(runs: Sequence[Twins]) -> list[list[object]]:
    """Return the rows on unchanged answers: pairs, and the share in each of the runs."""
    poisoned = [one["poisoned"] for one in runs]
    groups = {"**all poisoned**": poisoned}
    groups |= {f"`{one}`": [group["by_class"][one] for group in poisoned] for one in CLASSES}
    rows: list[list[object]] = [
        [name, sides[0]["pairs"], *(with_interval(one["injection_resistance"]) for one in sides)]
        for name, sides in groups.items()
    ]
    for kind in ("neutral", "duplicate"):
        shares = (with_interval(one[kind]["unchanged_share"]) for one in runs)
        rows.append([f"`{kind}`", runs[0][kind]["pairs"], *shares])
    return rows
