"""An engine with one defect built in: its own process, in which one line of its source is another.

python -m tests.theatre.broken_engine FOLDER reads defects, by name, from stdin. For each it forks
before anything of the engine is loaded, runs a theatre with that engine, and writes what the same
build's check and `verify_bundle.py` say of the bundle to FOLDER/NAME.json.
"""

import importlib.util
import json
import os
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder, SourceLoader
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from theatre.engine.canonical_json import JsonObject

EPISODES = 60
ENGINE = ("theatre.engine.scoring.", "theatre.engine.tier_assigner.")


class BrokenLoader(SourceFileLoader):
    """Loads a module whose source has `new` wherever the file has `old`."""

    def __init__(self, name: str, path: str, old: str, new: str) -> None:
        super().__init__(name, path)
        self._old, self._new = old, new

    def get_code(self, fullname: str) -> CodeType:  # noqa: ARG002 - of the protocol
        """Compile the changed source; there is no bytecode of it to be taken or left."""
        source = Path(self.path).read_text(encoding="utf-8")
        assert self._old in source, f"expected {self._old!r} in {self.path}"
        return compile(source.replace(self._old, self._new), self.path, "exec")


class BrokenFinder(MetaPathFinder):
    """Finds one module, with a defect."""

    def __init__(self, module: str, old: str, new: str) -> None:
        self.module, self.old, self.new = module, old, new

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the defective module, nothing for any other."""
        if fullname != self.module:
            return None
        found = PathFinder.find_spec(fullname, path, target)
        origin = str(cast("ModuleSpec", found).origin)
        loader: SourceLoader = BrokenLoader(fullname, origin, self.old, self.new)
        return importlib.util.spec_from_file_location(fullname, origin, loader=loader)


def run_and_check(folder: Path) -> dict[str, list[str]]:
    """Run a theatre with every outcome, and return what either check refuses of its bundle."""
    from tests.theatre.forged_bundle import check, failed_ids
    from tests.theatre.runs import (
        ERROR,
        LATE,
        REFUSED,
        ScriptedAdapter,
        answer_as_asked,
        episodes,
        pilot_stage,
    )
    from theatre.engine.bundle_check.standalone import verify

    answers: dict[int, JsonObject] = {
        seq: {
            "output_data": {
                "colour": "red" if seq % 3 else "blue",
                "recall": 0.5 if seq % 4 else 0.9,
                "confidence": round(seq / 70, 3),
            }
        }
        for seq in range(1, EPISODES + 1)
    }
    answers |= dict.fromkeys((5, 15, 25, 35, 45), ERROR) | dict.fromkeys((6, 16, 26), REFUSED)
    changes = {"/scoring/calibration_criterion": "colour"}
    stage = pilot_stage(folder, episodes(EPISODES, answers), changes=changes)
    stage.run(ScriptedAdapter(answer_as_asked))
    # Sealed, or a draft that the run itself refused.
    (sums,) = folder.rglob("SHA256SUMS")
    return {
        "check": sorted(failed_ids(check(sums.parent))),
        "verify_bundle": sorted(
            name for name, found in verify(sums.parent, now=LATE).problems.items() if found
        ),
    }


def load_what_has_no_defect() -> None:
    """Import once, for all that are forked, what takes longest and is not of this project."""
    for name in ("httptools", "jsonschema", "numpy", "orjson", "pydantic", "pytest", "yaml"):
        importlib.import_module(name)
    assert not any(name.startswith("theatre") for name in sys.modules)


def build(folder: Path, name: str, module: str, old: str, new: str) -> None:
    """Become the build with a defect, run it and write down what is refused."""
    if module:
        assert module.startswith(ENGINE)
        sys.meta_path.insert(0, BrokenFinder(module, old, new))
    said = run_and_check(folder / name)
    (folder / f"{name}.json").write_text(json.dumps(said), encoding="utf-8")


if __name__ == "__main__":
    load_what_has_no_defect()
    for name, defect in json.load(sys.stdin).items():
        if os.fork() == 0:
            build(Path(sys.argv[1]), name, *defect)
            sys.exit()
        _, status = os.wait()
        assert status == 0, name
