"""Follow-up questions: from the record alone, always the same, with an answer that holds."""

from datetime import UTC, datetime

import pytest

from tests.theatre.verification.test_lexical import DIFF
from theatre.verification.change_facts import change_facts
from theatre.verification.records import (
    FollowUp,
    GroundTruthRecord,
    make_episode,
    make_follow_up,
    make_record,
)


def record(id_: str, diff: str = DIFF, *, unread: int = 0) -> GroundTruthRecord:
    return make_record(
        id=id_,
        commit="",
        message="Change things",
        diff=diff,
        unread_diff_bytes=unread,
        paths=["src/store.py", "docs/old.md", "b.txt", "tests/test_store.py"],
        timestamp=datetime(2026, 1, 1, tzinfo=UTC),
        labels=(),
        author="Ada",
    )


def test_these_are_the_questions_that_a_change_can_get() -> None:
    asked = {make_follow_up(record(str(at)), change_facts(DIFF)) for at in range(200)}
    assert asked == {
        FollowUp(
            question="Which files does this change add? Give their paths.",
            names=("tests/test_store.py",),
        ),
        FollowUp(
            question="Which files does this change delete? Give their paths.",
            names=("docs/old.md",),
        ),
        FollowUp(
            question="Which files does this change rename? Give their new paths.", names=("b.txt",)
        ),
        FollowUp(
            question="Which functions or types does this change define anew in src/store.py?",
            names=("flush_pending",),
        ),
        FollowUp(
            question="Which functions or types does this change take out of src/store.py?",
            names=("close",),
        ),
        FollowUp(
            question=(
                "Which functions or types does this change define anew in tests/test_store.py?"
            ),
            names=("test_flush_pending",),
        ),
        FollowUp(question="How many lines does this change add to src/store.py?", number=4),
        FollowUp(
            question="How many files does this change touch? A renamed file counts once.", number=4
        ),
    }


@pytest.mark.parametrize("at", range(5))
def test_of_a_diff_that_was_cut_only_the_files_are_asked_for(at: int) -> None:
    cut = record(str(at), unread=1)
    assert make_follow_up(cut, change_facts(cut.diff_content)).number == 4


def test_the_oracle_is_shown_record_and_question_and_not_the_answer() -> None:
    episode = make_episode(record("7"))
    assert episode["input_data"] == {
        "record": record("7").as_document(),
        "follow_up_question": make_follow_up(record("7"), change_facts(DIFF)).question,
    }
    expected = episode["expected_output"]
    assert isinstance(expected, dict)
    assert expected.keys() == {"follow_up", "important_changes"}


def test_of_a_change_without_anything_in_it_recall_does_not_apply() -> None:
    expected = make_episode(record("7", diff=""))["expected_output"]
    assert expected == {"follow_up": {"number": 4}}
