"""`echelon theatre episode`: all that is known of one episode, and why it scored as it did."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import click

from theatre.api.workspace import Workspace
from theatre.cli.episodes_command import found_run, readable, score_text
from theatre.cli.exits import echo, json_option, print_document
from theatre.cli.tables import format_usage, on_a_line, print_value, shortened, terminal_width
from theatre.engine.canonical_json import JsonObject, JsonValue, parse_object
from theatre.engine.errors import NotFoundError, ParseError
from theatre.engine.models import EPISODE_RESULT, JUDGEMENTS, GroundTruthEpisode, InvocationStatus
from theatre.engine.replay.recording import input_sent
from theatre.engine.scoring.provider import Absent, answered_at, criteria_scorers, expected_at
from theatre.engine.scoring.repeats import outputs_of
from theatre.files.recorded_run import RecordedEpisode, RecordedRun, count_usage, trouble_of

_MOST_CALLS = 4
"""So many calls of an episode are shown with all that was sent and answered."""

_SUCCESS = InvocationStatus.SUCCESS.value


@click.command()
@click.argument("target", metavar="ID")
@click.argument("wanted", metavar="EPISODE")
@click.option("--full", "is_whole", is_flag=True, help="Long values to their end.")
@json_option
def episode(target: str, wanted: str, *, is_whole: bool, as_json: bool) -> None:
    """Show one EPISODE of ID, by its id or its number: question, answers, scores, and why.

    ID is a theatre, while it runs or after, or a bundle's folder; the beginning of an id is
    enough. --json has everything that is recorded of the episode.
    """
    run = found_run(target, Workspace.from_environment())
    with readable(run):
        document = _document(run, _found(run, wanted))
        if as_json:
            print_document(document)
        else:
            _print(document, is_whole=is_whole)


def _found(run: RecordedRun, wanted: str) -> RecordedEpisode:
    """Return an episode by its id, else by its number; NotFoundError where none is recorded."""
    count, by_number = 0, None
    for one in run.episodes():
        if one.episode_id == wanted:
            return one
        if str(one.seq) == wanted.removeprefix("#"):
            by_number = one
        count += 1
    if by_number is None:
        raise NotFoundError(
            f"expected one of the {count} episodes that are recorded of theatre {run.theatre_id}, "
            f"got {wanted[:100]}: echelon theatre episodes lists them"
        )
    return by_number


def _document(run: RecordedRun, found: RecordedEpisode) -> JsonObject:
    record = run.record_of(found)
    truth = next((one for one in run.truths() if one.seq == found.seq), None)
    # The dataset's input; where that is gone, what was sent of it.
    asked = None if truth is None else truth.input_data
    if asked is None and record is not None:
        asked = input_sent(record)
    reason, detail = trouble_of(found)
    shown: JsonObject = {
        "theatre_id": run.theatre_id,
        "template_id": run.template["theatre_id"],
        "seq": found.seq,
        "episode_id": found.episode_id,
        "outcome": found.outcome.value,
        "reason": reason,
        "error_detail": detail,
        "holdout": found.is_held_out,
        "withheld": run.is_withheld,
        "input_data": asked,
        "expected_output": None,
        "gold_label": None,
        "composite": None,
        "criteria": None,
        "ratings": None,
        "usage": count_usage(run.tally(), [found]),
        "record": record,
        **({} if found.repeats is None else {"repeats": found.repeats}),
    }
    if run.is_withheld:
        return shown
    label = run.label(found.episode_id)
    return shown | {
        "expected_output": None if truth is None else truth.expected_output,
        "gold_label": label,
        "composite": found.composite,
        "criteria": _criteria(run, found, truth, label),
        "ratings": [*run.ratings(found.episode_id)],
    }


def _criteria(
    run: RecordedRun,
    found: RecordedEpisode,
    truth: GroundTruthEpisode | None,
    label: JsonObject | None,
) -> JsonObject:
    """Return criterion → score, scorer, and the two values that it was made of, if there are two.

    `expected` and `answered` are left out where a criterion compares no single values, or where
    nothing stands in their places.
    """
    outputs = {} if found.record is None else outputs_of(found.record.document)
    criteria: JsonObject = {}
    for criterion in run.criteria:
        choice = criteria_scorers(run.template)[criterion]
        params = cast("Mapping[str, JsonValue]", choice.get("params", {}))
        field, path = params.get("field"), params.get("expected")
        one: JsonObject = {"score": found.scores[criterion], "scorer": choice["scorer"]}
        if isinstance(path, str) and truth is not None:
            expected = expected_at(path, truth.expected_output, label)
            one |= {} if isinstance(expected, Absent) else {"expected": expected}
        if isinstance(field, str):
            answered = answered_at(field, outputs)
            one |= {} if isinstance(answered, Absent) else {"answered": answered}
        criteria[criterion] = one
    return criteria


def _print(document: Mapping[str, Any], *, is_whole: bool) -> None:
    echo(f"theatre   {document['theatre_id']}, {document['template_id']}")
    held_out = ", held out" if document["holdout"] else ""
    echo(f"episode   {document['episode_id']}, number {document['seq']}{held_out}")
    why = [one for one in (document["reason"], document["error_detail"]) if one is not None]
    echo(f"outcome   {document['outcome']}" + (f", {': '.join(why)}" if why else ""))
    if document["usage"] is not None:
        echo(f"used      {format_usage(document['usage'])}")
    print_value("input", document["input_data"], is_whole=is_whole)
    if document["withheld"]:
        echo("expectation, scores and ratings are shown once people have scored")
    for name, member in (("expected", "expected_output"), ("gold label", "gold_label")):
        if document[member] is not None:
            print_value(name, document[member], is_whole=is_whole)
    record = document["record"]
    if record is None:
        echo("the episode was not run")
    else:
        _print_calls(record, document["input_data"], is_whole=is_whole)
        if record.get(EPISODE_RESULT) is not None:
            print_value("made of it", record[EPISODE_RESULT], is_whole=is_whole)
    if document["criteria"] is not None:
        _print_scores(document["criteria"], document["composite"], is_whole=is_whole)
        _print_repeats(document.get("repeats"))
        judged = (record or {}).get(JUDGEMENTS, {})
        for place, of_answer in enumerate(judged if isinstance(judged, list) else [judged]):
            _print_judgements(of_answer, _again(place), is_whole=is_whole)
    for rating in document["ratings"] or ():
        comment = "" if rating["comment"] is None else f": {rating['comment']}"
        echo(f"rated     {rating['score']:g} by {rating['scorer']} ({rating['step_id']}){comment}")


def _print_calls(record: Mapping[str, Any], asked: JsonValue, *, is_whole: bool) -> None:
    """Print each call: what was sent, unless it is the input, and what came back.

    Of many calls a terminal shows a line each, unless they failed or `is_whole`.
    """
    calls = record["calls"]
    width = None if is_whole else terminal_width()
    for number, call in enumerate(calls, start=1):
        place = f"call {number} of {len(calls)}, " if len(calls) > 1 else ""
        again = _again(call["repeat"])
        status = call["attempts"][-1]["response"]["status"]
        if width is not None and len(calls) > _MOST_CALLS and status == _SUCCESS:
            answer = on_a_line(call["attempts"][-1]["response"]["output_data"])
            echo(shortened(f"{place}answer of {call['construct_id']}{again}: {answer}", width))
            continue
        sent = call["request"]["input_data"]
        if sent != asked:
            print_value(f"{place}sent to {call['construct_id']}{again}", sent, is_whole=is_whole)
        for tried, attempt in enumerate(call["attempts"], start=1):
            response = attempt["response"]
            attempts = f", attempt {tried}" if len(call["attempts"]) > 1 else ""
            name = (
                f"{place}answer of {call['construct_id']}{again}{attempts}: {response['status']}, "
                f"{response['latency_ms']} ms"
            )
            _print_attempt(name, attempt, is_whole=is_whole)
    if width is not None and len(calls) > _MOST_CALLS:
        echo("  what was sent and answered in each call: --full")


def _again(repeat: int) -> str:
    return {0: "", 1: ", a second time"}.get(repeat, f", time {repeat + 1}")


def _print_attempt(name: str, attempt: Mapping[str, Any], *, is_whole: bool) -> None:
    response = attempt["response"]
    if response["output_data"] or response["status"] == _SUCCESS:
        print_value(name, response["output_data"], is_whole=is_whole)
    else:
        echo(name)
    for member, value in (
        ("reason", attempt["reason"]),
        ("error_detail", response["error_detail"]),
        ("raw", attempt["raw"]),
        ("stderr", attempt["stderr"]),
    ):
        if value:
            print_value(f"  {member}", value, is_whole=is_whole)


def _print_repeats(repeats: Mapping[str, Any] | None) -> None:
    if repeats is None:
        return
    echo(f"repeats   {', '.join(repeats['statuses'])}; each score is the mean of")
    for name, scores in repeats["scores"].items():
        if scores is not None:
            echo(f"  {name}  {', '.join(map(score_text, scores))}")


def _print_scores(
    criteria: Mapping[str, Mapping[str, Any]], composite: float | None, *, is_whole: bool
) -> None:
    width = None if is_whole else terminal_width()
    longest = max(map(len, criteria))
    echo("scores")
    for name, one in criteria.items():
        echo(f"  {name:{longest}}  {score_text(one['score']):>5}  {one['scorer']}")
        for member in ("expected", "answered") if one["score"] not in {None, 1} else ():
            if member in one:
                echo(shortened(f"    {member}  {on_a_line(one[member])}", width))
    if composite is not None:
        echo(f"  {'composite':{longest}}  {score_text(composite):>5}")


def _print_judgements(
    judgements: Mapping[str, Sequence[Mapping[str, Any]]], again: str, *, is_whole: bool
) -> None:
    for criterion, exchanges in judgements.items():
        for number, exchange in enumerate(exchanges, start=1):
            answer = exchange["answer"]
            place = f" {number} of {len(exchanges)}" if len(exchanges) > 1 else ""
            why = f", {answer['reason']}" if answer.get("reason") else ""
            name = f"judge on {criterion}{again}{place}{why}"
            print_value(name, _words_of(answer), is_whole=is_whole)


def _words_of(answer: Mapping[str, Any]) -> JsonValue:
    """Return what a judge said: what its message holds; without one, all that came back."""
    body = answer.get("body")
    if not isinstance(body, str):
        return dict(answer)
    try:
        content: Any = parse_object(body.encode()).get("content")
        text = "".join(block.get("text", "") for block in content)
    except (ParseError, UnicodeEncodeError, TypeError, AttributeError):
        return body
    try:
        return parse_object(text.encode())
    except (ParseError, UnicodeEncodeError):
        return text
