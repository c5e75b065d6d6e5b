"""How the transcripts of the demo are written anew: what it leaves out stays left out."""

from tests.publish import aligned

SHOWN = """\
──  6/12  Two stand-ins score: rules, no people, and named so              11 s
…

──  7/12  Its run goes on, and says where decisions were lost              11 s
recall                    0.956  0.934 … 0.978 (bca)
"""

PRINTED = """\
──  6/12  Two stand-ins score: rules, no people, and named so              12 s
demo-reviewer-a  2 2 2 1.5 4.5 4 4 4 2 2 2.5 4.5 4.5 1.5 4.5 4 4 2.5 2.5 4 2 4.5
                 4 2 2 2
                 the first because: begins in the middle (+3)

──  7/12  Its run goes on, and says where decisions were lost              13 s
recall                    0.957  -
"""

WRITTEN = """\
──  6/12  Two stand-ins score: rules, no people, and named so              12 s
…

──  7/12  Its run goes on, and says where decisions were lost              13 s
recall                    0.957  -
"""


def test_a_line_of_nothing_but_figures_stands_for_no_empty_line() -> None:
    assert "".join(aligned(SHOWN.splitlines(), PRINTED.splitlines())) == WRITTEN
