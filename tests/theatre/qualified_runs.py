"""Qualifications of scripted measures on the shipped labelled set, and runs that rely on them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from theatre.api.qualifications import read_labelled_files
from theatre.engine.canonical_json import JsonObject, JsonValue, canonical_sha256
from theatre.engine.scoring.qualification import LabelledRow, qualification_document
from theatre.files.trust_home import TrustHome
from theatre.transparency.statements import qualification_statement, sign_statement

FOLDER = Path(__file__).parents[2] / "fixtures" / "labelled" / "changes"
FILE = "measured.jsonl"
"""The signed file, as a dataset of a pilot's template."""
PARAMS: JsonObject = {"field": "colour", "terms": ["red"]}

Rule = Callable[[LabelledRow, int], float | None]
"""Row and its place among all → the score that a scripted measure gives."""


def reads_well(row: LabelledRow, place: int) -> float:
    """Right but for one claim in twenty."""
    return float(row.is_true is (place % 20 != 0))


@cache
def _labelled() -> tuple[Sequence[LabelledRow], str]:
    found = read_labelled_files([FOLDER])
    return found.rows, found.texts_sha256


def qualification(
    rule: Rule = reads_well,
    *,
    keep: Callable[[LabelledRow], bool] = lambda _: True,
    texts_sha256: str | None = None,
    **measure: JsonValue,
) -> JsonObject:
    """Return the qualification of a scripted measure; `keep` drops rows, `measure` has changes."""
    rows, texts = _labelled()
    plain: JsonObject = {
        "scorer": "contains_terms",
        "version": "1",
        "kind": "textual",
        "threshold": 0.5,
    }
    return qualification_document(
        {**plain, "params": PARAMS, **measure},
        [replace(row, score=rule(row, n)) for n, row in enumerate(rows) if keep(row)],
        texts_sha256=texts_sha256 or texts,
        usage=None,
        exchanges_sha256=None,
        issuer="local",
        qualified_at="2026-11-23T00:00:00.000000Z",
    )


def signed(document: JsonObject, home: Path) -> bytes:
    """Return the file that the key of a trust home signs."""
    trust_home = TrustHome(home)
    trust = trust_home.open(issuer="local", at=datetime(2026, 11, 1, tzinfo=UTC))
    payload = qualification_statement(document, canonical_sha256(document))
    return sign_statement(payload, trust_home.signer(trust))


def relying_on(
    document: JsonObject, scorer: str = "contains_terms", params: JsonObject = PARAMS
) -> Mapping[str, JsonValue]:
    """Return the changes of a pilot's template by which `colour` relies on a qualification."""
    return {
        "/schema_version": "2.2.0",
        "/scoring/criteria_scorers/colour": {"scorer": scorer, "params": params},
        "/scorer_pins": {scorer: "1", "numeric_tolerance": "1"},
        "/product_theatre_config/dataset_paths": {"measured": FILE},
        "/scoring/qualifications": {
            "colour": {"dataset": "measured", "sha256": canonical_sha256(document)}
        },
    }
