"""The tables of docs/adversaries.md, drawn from the one that the tests read.

`python -m tests.docs.adversaries_table` prints them.
"""

import sys

from theatre.cli.adversaries.rehearsal import Adversary, Kind, known_adversaries, paid

HEADS = {
    Kind.ANSWERS: "| adversary | what it does | how it ends | decided by | rule |",
    Kind.RECORD: "| attack | what it does | how it ends | decided by | rule |",
}
OTHER_HEADS = {
    Kind.TASK: "| adversary of one task | what it does | how it ends | decided by | rule |",
    Kind.JUDGES: "| measure | what it does | how it ends | decided by | rule |",
    Kind.READS: "| reader | what it does | how it ends | decided by | rule |",
}
PAID_HEAD = "| template | criteria | paid to | why |"


def drawn() -> dict[str, str]:
    """Return each table as Markdown by its first line; kinds without a row have none."""
    rows = {
        head: [_row(one) for one in known_adversaries() if one.kind is kind]
        for kind, head in (HEADS | OTHER_HEADS).items()
    }
    rows[PAID_HEAD] = [
        f"| `{one.template}` | {_names(one.criteria)} | {_names(one.to)} | {one.why} |"
        for one in paid()
    ]
    return {
        head: "\n".join([head, "|---" * (head.count("|") - 1) + "|", *lines])
        for head, lines in rows.items()
        if lines
    }


def _row(one: Adversary) -> str:
    page, _, anchor = one.rule.partition("#")
    target = f"#{anchor}" if page == "adversaries.md" else one.rule
    return (
        f"| `{one.name}` | {one.does} | {one.ends} | `{one.guard}` | "
        f"[{page.removesuffix('.md').rpartition('/')[2]}]({target}) |"
    )


def _names(names: tuple[str, ...]) -> str:
    return ", ".join(f"`{name}`" for name in names)


if __name__ == "__main__":
    sys.stdout.write("\n\n".join(drawn().values()) + "\n")
