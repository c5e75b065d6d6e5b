"""`@scorer`: from a function of two values to what an entry point registers."""

import hashlib
import importlib
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType

import pytest

from theatre import ScoringCase, scorer
from theatre.engine.models import ScorerKind
from theatre.scorers import registered_scorers

NEAR = '''
from theatre import scorer


@scorer(kind="exact")
def near(answer, expected):
    """Score by distance."""
    return max(0.0, 1 - abs(answer - expected) / 10)
'''


def module(folder: Path, text: str, name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    (folder / f"{name}.py").write_text(text, "utf-8")
    monkeypatch.syspath_prepend(folder)
    importlib.invalidate_caches()
    return importlib.import_module(name)


def test_an_entry_point_registers_it_under_the_hash_of_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    declared = module(tmp_path, NEAR, "near_scorer", monkeypatch).near
    entry = EntryPoint("near", "near_scorer:near", "echelon.scorers")
    near = registered_scorers([entry])["near"]
    assert [near] == [declared]
    assert near.pin == f"near@{hashlib.sha256(NEAR.encode()).hexdigest()[:12]}"
    assert near.kind is ScorerKind.EXACT
    case = ScoringCase(input_data={}, expected=9, answer=7, params={}, hops={})
    assert (near.score(case), declared(7, 9)) == (0.8, 0.8)


def test_an_edit_of_the_file_is_another_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = module(tmp_path, NEAR, "near_first", monkeypatch)
    second = module(tmp_path, NEAR.replace("/ 10", "/ 100"), "near_second", monkeypatch)
    assert first.near.version != second.near.version


def test_what_no_one_could_compute_again_is_refused() -> None:
    with pytest.raises(ValueError, match="judged"):
        scorer(kind="judged")(lambda _, __: 1.0)  # type: ignore[arg-type]
    names: dict[str, object] = {}
    exec("def typed(answer, expected): return 1.0", names)  # noqa: S102 - as in a shell
    with pytest.raises(ValueError, match="from a file, or a version"):
        scorer(kind="exact")(names["typed"])  # type: ignore[arg-type]
