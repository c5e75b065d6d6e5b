"""Edits that mean nothing: an auditor should have nothing to say about them."""

from __future__ import annotations

import re
from collections.abc import Mapping

from theatre.debate.trial.editing import Draft, Edit, rewrite

_SYNONYMS = (
    ("leads to", "results in"),
    ("prices", "quotations"),
    ("outweighs it", "weighs more"),
    ("Clip", "Shearing"),
    (" small ", " little "),
    ("income", "earnings"),
)


def _wider_spaces(debate: Draft, place: int) -> bool:
    return rewrite(debate, place, lambda text: text.replace(" ", "  ").replace("\n", "\n\n"))


def _other_order(debate: Draft, place: int) -> bool:
    def turned(text: str) -> str:
        parts = re.split(r"^(?=### )", text, flags=re.MULTILINE)
        return "\n\n".join(part.strip() for part in reversed(parts) if part.strip())

    return rewrite(debate, place, turned)


def _paraphrase(debate: Draft, place: int) -> bool:
    def paraphrase(text: str) -> str:
        for word, other in _SYNONYMS:
            text = text.replace(word, other)
        return text

    return rewrite(debate, place, paraphrase)


def _new_ids(debate: Draft, place: int) -> bool:
    debate["turns"][place]["turn_id"] += "-renamed"
    return True


def _unknown_member(debate: Draft, place: int) -> bool:
    debate["turns"][place]["colour"] = {"mood": "BUY", "outcome": "SELL"}
    debate["ground_truth"] = "SHORT"
    return True


NULL_EDITS: Mapping[str, Edit] = {
    "N1 wider spaces and empty lines": _wider_spaces,
    "N2 sections in another order": _other_order,
    "N3 synonyms": _paraphrase,
    "N4 another turn id": _new_ids,
    "N5 members that nobody knows": _unknown_member,
}
