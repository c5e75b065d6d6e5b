"""The shipped auditor is a program of its own; it finds what the package's evaluators find."""

import importlib
import json
import sys
from pathlib import Path

import pytest

from tests.theatre.debate.auditor_trial import CORRUPTIONS, audit
from theatre.debate.episodes.runner import FAULTS

FIXTURES = Path(__file__).parents[3] / "fixtures"
EPISODES = FIXTURES / "ground_truth" / "product_debate_auditor_v1.jsonl"
MODULES = ("auditor", "argument_faults", "broken_rules", "turn_text")


def test_auditors_are_given_the_codes_and_the_words_of_the_faults_that_are_planted() -> None:
    assert [*FAULTS.items()] == [(one.expected, one.name.partition(" ")[2]) for one in CORRUPTIONS]


def test_it_finds_in_every_episode_what_the_package_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(FIXTURES / "constructs" / "debate"))
    auditor = importlib.import_module("auditor")
    for line in EPISODES.read_bytes().splitlines():
        asked = json.loads(line)["input_data"]
        for one in (asked, {"earlier": None, **asked.get("twin", {})}):
            if "debate" not in one:
                continue
            earlier = one.get("earlier")
            found = auditor.structural({"debate": one["debate"], "earlier": earlier})["findings"]
            expected = audit(one["debate"], earlier=earlier)
            assert {(each["turn"], each["code"]) for each in found} == {*expected}
    for name in MODULES:
        sys.modules.pop(name, None)
