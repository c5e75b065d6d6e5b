"""The table of docs/hostile.md, drawn from the one that the tests read.

`python -m tests.docs.hostile_table` prints it.
"""

import sys

from tests.theatre.oracles.hostile_cases import Case, Text, read_table

HEADER = "| mode | over | what the construct does | status | reason | attempts | evidence |"
_RULE = "|---" * (HEADER.count("|") - 1) + "|"
_NAMES = {
    "$invocation_id": "<invocation>",
    "$construct_id": "<construct>",
    "$construct_version": "<pin>",
    "$origin": "<server>",
}


def drawn() -> str:
    """Return the whole table as Markdown, without a line feed at its end."""
    return "\n".join([HEADER, _RULE, *(_row(case) for case in read_table().case)])


def _row(case: Case) -> str:
    cells = [
        f"`{case.mode}`",
        ", ".join(case.on),
        case.does,
        f"`{case.status.value}`",
        f"`{case.reason}`" if case.reason else "",
        str(case.attempts),
        "; ".join(_evidence(case)),
    ]
    return f"| {' | '.join(cells)} |"


def _evidence(case: Case) -> list[str]:
    """Name what is kept of each attempt, and of the next call where that says something too."""
    kept = []
    if case.detail is not None:
        kept.append(f"`{_shown(case.detail)}`")
    elif case.detail_begins is not None:
        kept.append(f"`{_shown(case.detail_begins)}…`")
    else:
        kept.append("the answer")
    if case.raw is not None:
        kept.append(_kept_of(case.raw, cut=case.reason == "too-large"))
    if case.stderr is not None:
        kept.append("the end of its stderr")
    if case.stderr_ends is not None:
        kept.append(f"its stderr, which ends with `{case.stderr_ends.strip()}`")
    if case.next_stderr_begins is not None:
        kept.append(f"in the next call `{case.next_stderr_begins}…`")
    return kept


def _kept_of(raw: Text, *, cut: bool) -> str:
    if raw == "":
        return "that it sent nothing"
    return "the first MiB of what it sent" if cut else "what it sent"


def _shown(text: str) -> str:
    for name, shown in _NAMES.items():
        text = text.replace(name, shown)
    return text


if __name__ == "__main__":
    sys.stdout.write(f"{drawn()}\n")
