"""The pictures of a debate: what the loop stored, as SVG whose text is text."""

from pathlib import Path

from tests.theatre.debate.debates import a_debate, as_bytes
from tests.theatre.debate.scripted_runs import FIXTURES
from tests.theatre.forked_echelon import forked


def test_a_run_in_the_loop_has_three_pictures_and_one_after_the_fact_none(tmp_path: Path) -> None:
    out = tmp_path / "pictures"
    name = FIXTURES / "scripted" / "wool_prices_after_the_drought-2-{}.json"
    loop, posthoc = (str(name).format(mode) for mode in ("in_loop", "posthoc"))
    answer = forked("debate", "plot", loop, "--out", out, home=tmp_path / "home")
    assert (answer.code, answer.stderr) == (0, "")
    said = {path.stem: path.read_text(encoding="utf-8") for path in out.iterdir()}
    assert sorted(said) == ["controller", "quadrants", "quality"]
    assert ">gamma_mean<" in said["quality"]
    assert ">strength applied next<" in said["controller"]
    assert [f">{corner}<" in said["quadrants"] for corner in ("STUCK", "CHAOTIC", "HEALTHY")] == [
        True
    ] * 3
    none = forked("debate", "plot", posthoc, "--out", out, home=tmp_path / "home")
    assert (none.code, "expected attempts with audits" in none.stderr) == (3, True)


def test_what_others_stored_is_drawn_as_far_as_it_is_numbers(tmp_path: Path) -> None:
    debate = a_debate()
    audits: list[dict[str, object]] = [
        {"crit": {"feedback": "more"}, "pid": {"e_t": 0.5, "quadrant": ["STUCK"]}},
        {"crit": {"theta_mean": 0.5}, "pid": {"u_t": None, "rho_bar": "high", "beta_applied": {}}},
    ]
    for attempt, audit in zip(debate["turns"][1]["attempts"], audits, strict=True):
        attempt["audit"] = audit
    path, out = tmp_path / "debate.json", tmp_path / "pictures"
    path.write_bytes(as_bytes(debate))
    answer = forked("debate", "plot", path, "--out", out, home=tmp_path / "home")
    assert (answer.code, answer.stderr) == (0, "")
    assert [one.name for one in out.iterdir()] == ["quality.svg"]
