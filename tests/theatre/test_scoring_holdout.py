"""The holdout is drawn by the commitment, so that everybody can and nobody has to draw it."""

import hashlib
import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from theatre.engine.scoring import is_held_out

COMMITMENT = "5e" * 32
SPLITS = [Fraction(0), Fraction(1, 10), Fraction(1, 5), Fraction(1, 2)]


def drawn(commitment: str, episode_id: str) -> Fraction:
    """Return the draw of docs/contract/scoring.md §6, with the standard library alone."""
    digest = hashlib.sha256((commitment + ":" + episode_id).encode("utf-8")).hexdigest()
    return Fraction(int(digest[:16], 16), 2**64)


@given(st.text(), st.sampled_from(SPLITS))
def test_an_episode_is_held_out_if_its_draw_lies_below_the_share(
    episode_id: str, split: Fraction
) -> None:
    assert is_held_out(COMMITMENT, episode_id, split) is (drawn(COMMITMENT, episode_id) < split)


def test_a_known_draw_lies_where_it_was_computed_by_hand() -> None:
    # printf '%s:episode-1' 5e5e…5e | sha256sum
    assert hashlib.sha256(f"{COMMITMENT}:episode-1".encode()).hexdigest()[:16] == "e1d8e0d5de94c2a8"
    exactly = Fraction(int("e1d8e0d5de94c2a8", 16), 2**64)
    assert not is_held_out(COMMITMENT, "episode-1", exactly)
    assert is_held_out(COMMITMENT, "episode-1", exactly + Fraction(1, 2**64))


@pytest.mark.parametrize("split", SPLITS)
def test_the_share_of_held_out_episodes_converges_to_the_committed_one(split: Fraction) -> None:
    n = 20_000
    held = sum(is_held_out(COMMITMENT, f"episode-{number}", split) for number in range(n))
    four_deviations = 4 * math.sqrt(n * split * (1 - split))
    assert abs(held - n * split) <= four_deviations


def test_another_commitment_draws_another_holdout() -> None:
    ids = [f"episode-{number}" for number in range(64)]
    holdouts = {
        tuple(is_held_out(commitment, one, Fraction(1, 2)) for one in ids)
        for commitment in (COMMITMENT, "5f" * 32, "00" * 32)
    }
    assert len(holdouts) == 3
