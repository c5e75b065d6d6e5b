"""What an invocation record says, and where it is another than was committed.

For `verify_bundle.py`. Written from docs/contract/evidence.md §7. It runs no
sanitiser, no runner of interactive episodes, no judge and no JSON Schema.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from itertools import groupby
from typing import Final, NamedTuple, TypeGuard
from uuid import UUID

from theatre.engine.bundle_check.arithmetic import (
    DECLARED,
    Document,
    is_recorded,
    is_usage,
    parsed_time,
    status_of_all,
    taken_by,
)
from theatre.engine.bundle_check.plain_json import DefectError, canonical, parsed

SHA256: Final = re.compile("[0-9a-f]{64}")
STATUSES: Final = {"success", "timeout", "error", "refused"}
FAILURES: Final = {"timeout", "error"}
UNSENDABLE, MISFIT, MISMATCH = "unsendable-input", "output-spec", "version-mismatch"
FINAL: Final = {MISFIT, MISMATCH, "answer-not-found"}
MAX_DETAIL: Final = 2000
MAX_LISTED: Final = 100
RAW_IN_FULL: Final = 1024 * 1024 - 6
"""Bytes of a text below which nothing was cut off."""
NoneType: Final = type(None)
Form = dict[str, tuple[type, ...]]
CALL: Final[Form] = {
    "hop": (int,),
    "repeat": (int,),
    "construct_id": (str,),
    "adapter": (str,),
    "version_source": (str,),
    "request": (dict,),
    "attempts": (list,),
}
ATTEMPT: Final[Form] = {
    "response": (dict,),
    "reason": (str, NoneType),
    "raw": (str, NoneType),
    "stderr": (str, NoneType),
}
RESPONSE: Final[Form] = {
    "invocation_id": (str,),
    "construct_id": (str, NoneType),
    "construct_version": (str, NoneType),
    "output_data": (dict, NoneType),
    "latency_ms": (int,),
    "status": (str,),
    "error_detail": (str, NoneType),
    "responded_at": (str,),
}
WITH_USAGE: Final[Form] = ATTEMPT | {"usage": (dict,)}
SANITISED: Final[Form] = {
    "sanitiser_version": (str,),
    "tables_sha256": (str,),
    "role_markers": (str,),
    "raw_fields": (list,),
    "raw_sha256": (str,),
    "sent_sha256": (str,),
    "counts": (dict,),
    "fields_changed": (int,),
    "fields": (list,),
    "wrong_keys": (list,),
}
CHANGED_FIELD: Final[Form] = {"path": (str,), "counts": (dict,)}

Problems = Iterator[str]


def sha256(data: bytes) -> str:
    """Return the SHA-256 of bytes in hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def differs(what: str, expected: object, actual: object) -> Problems:
    """Yield what is wrong if two JSON values have different canonical bytes."""
    if canonical(expected) == canonical(actual):
        return
    if isinstance(expected, dict) and isinstance(actual, dict):
        for name in sorted(expected.keys() | actual.keys()):
            if name not in expected or name not in actual:
                yield f"{what}/{name}: {'missing' if name in expected else 'one too many'}"
            else:
                yield from differs(f"{what}/{name}", expected[name], actual[name])
    else:
        yield f"{what}: expected {canonical(expected)!r:.90}, got {canonical(actual)!r:.90}"


def has_form(value: object, form: Form) -> TypeGuard[Document]:
    """Return whether a value is an object with these members, each of one of its types."""
    return (
        isinstance(value, dict)
        and value.keys() == form.keys()
        and all(type(value[name]) in types for name, types in form.items())
    )


class Hop(NamedTuple):
    """A construct of the chain; `shaped` tells whether its output must fit something."""

    construct_id: str
    version: str
    timeout_seconds: float
    shaped: bool


class Draws(NamedTuple):
    """What the coin draws in one theatre (docs/contract/earned.md §4)."""

    coin: bytes
    commitment_hash: str
    run_nonce: bytes

    def draw(self, purpose: str, *parts: object) -> bytes:
        """Return the 32 bytes that are drawn for a purpose."""
        key = hmac.digest(self.coin, self.run_nonce, "sha256")
        return hmac.digest(key, canonical([purpose, self.commitment_hash, *parts]), "sha256")

    def alias(self, episode_id: str) -> str:
        """Return the id under which a construct is sent an episode."""
        return f"ep_{self.draw('alias', episode_id).hex()[:32]}"

    def invocation_id(self, *place: object) -> str:
        """Return the id of a call: a UUID of version 8, of the first 16 bytes drawn."""
        whole = bytearray(self.draw("invocation", *place)[:16])
        whole[6] = whole[6] & 0x0F | 0x80
        whole[8] = whole[8] & 0x3F | 0x80
        return str(UUID(bytes=bytes(whole)))


def episode_line(dataset_line: str, label: object, record: bytes | None, result: bytes) -> bytes:
    """Return all that a bundle holds of an episode, canonical (docs/contract/evidence.md §4)."""
    parts = (
        b'{"dataset_line":' + canonical(dataset_line),
        b'"label":' + canonical(label),
        b'"record":' + (b"null" if record is None else record.removesuffix(b"\n")),
        b'"result":' + result.removesuffix(b"\n") + b"}",
    )
    return b",".join(parts)


def salted_leaf(salt: bytes, line: bytes) -> bytes:
    """Return the leaf of an episode under `episode_root`."""
    return hashlib.sha256(b"\x00" + salt + line).digest()


def merkle_root(leaves: list[bytes]) -> str:
    """Return the root (RFC 6962, 2.1) over leaf hashes, of which there is at least one."""
    row = leaves
    while len(row) > 1:
        pairs = [hashlib.sha256(b"\x01" + a + b) for a, b in zip(row[::2], row[1::2], strict=False)]
        row = [pair.digest() for pair in pairs] + row[len(pairs) * 2 :]
    return row[0].hex()


class Committed(NamedTuple):
    """What records are checked against: the template, and the entry of the start.

    `repeated` are the episodes that are called a second time; `runner` plays interactive ones;
    `answers` are the lines of a finished log by episode, None where a construct was to be called.
    """

    theatre_id: str
    draws: Draws
    hops: list[Hop]
    runner: str
    policy: Document
    input_spec: Document
    activated: Document
    repeated: set[str]
    answers: dict[str, Document] | None

    @property
    def single_call(self) -> bool:
        """Whether an episode is one call a construct."""
        return self.runner == "single_call"

    @property
    def repeats(self) -> int:
        """How often each episode is asked."""
        return int(self.policy.get("repeats", 1))

    @property
    def sanitises(self) -> bool:
        """Whether a sanitiser comes between the dataset and the first construct."""
        return bool(self.policy.get("sanitise_input", True))

    @property
    def retry_policy(self) -> Document:
        """How often and after which time a failed call is made again."""
        return {"max_retries": 2, "backoff_seconds": 5} | (self.policy.get("retry_policy") or {})

    def metadata(self, hop: Hop, invoked_at: str) -> Document:
        """Return the metadata that a call must be sent with."""
        nonce = self.draws.run_nonce.hex()
        return {
            "timeout_seconds": hop.timeout_seconds,
            "retry_policy": self.retry_policy,
            "deterministic": self.policy.get("deterministic_sample", 0) > 0,
            "sanitised": self.sanitises,
            "invoked_at": invoked_at,
            **({"run_nonce": nonce} if nonce else {}),
        }


def committed_hops(template: Document, constructs: list[str]) -> list[Hop]:
    """Return the chain. A single step stands for all of it, its shape for the last output."""
    programme = template["resolution_programme"]
    steps = [step for step in programme if step["type"] == "construct_invocation"]
    of_construct = {step["construct_id"]: step for step in steps}
    limit = (template.get("execution_policy") or {}).get("timeout_seconds", 30)
    hops = []
    for construct in constructs:
        step = steps[0] if len(steps) == 1 else of_construct[construct]
        shaped = len(steps) > 1 or construct == constructs[-1]
        hops.append(
            Hop(
                construct_id=construct,
                version=template["version_pins"]["constructs"][construct],
                timeout_seconds=step.get("timeout_seconds", limit),
                shaped=shaped and bool(step.get("output_spec")),
            )
        )
    return hops


class Asked(NamedTuple):
    """What a record says of an episode, as far as results and facts depend on it."""

    seq: int
    sent: object
    status: str
    trouble: Document
    confidence: object
    mismatches: int
    differs: bool
    statuses: tuple[str, ...]
    adapters: dict[str, str]
    sources: set[str]
    taken: tuple[Document, ...]
    tables: object
    problems: tuple[str, ...]
    version_problems: tuple[str, ...]
    invoked: datetime
    responded: datetime
    in_order: bool


def asked_of(committed: Committed, episodes: list[Document], record: Document) -> Asked:
    """Return what a record says; DefectError where it says nothing that can be read."""
    seq, calls = record["seq"], record["calls"]
    if type(seq) is not int or not 1 <= seq <= len(episodes):
        raise DefectError(f"expected a record of an episode, got {seq!r:.40}")
    first = [call for call in calls if call["repeat"] == 0]
    second = [call for call in calls if call["repeat"] == 1]
    ends = [list(made)[-1] for _, made in groupby(calls, lambda call: call["repeat"])]
    statuses = [end_of(end)["status"] for end in ends]
    if not STATUSES.issuperset(statuses):
        raise DefectError(f"record {seq}: expected a status, got {statuses!r:.40}")
    answering = ends[statuses.index(status_of_all(statuses))]
    last = answering["attempts"][-1]
    response = last["response"]
    answer = response["output_data"] if committed.single_call else record["episode_result"]
    sanitised = record["sanitised"]
    asked_at, answered_at, in_order = times_of(calls)
    return Asked(
        seq=seq,
        sent=calls[0]["request"]["input_data"],
        status=response["status"],
        trouble={
            "seq": seq,
            "episode_id": record["episode_id"],
            "construct_id": answering["construct_id"],
            "hop": answering["hop"],
            "status": response["status"],
            "reason": last["reason"],
            "error_detail": response["error_detail"],
        },
        confidence=answer.get("confidence") if isinstance(answer, dict) else None,
        mismatches=sum(
            attempt["reason"] == MISMATCH for call in calls for attempt in call["attempts"]
        ),
        differs=committed.repeats == 1 and bool(second) and rounds_differ(first, second),
        statuses=tuple(statuses),
        adapters={call["construct_id"]: call["adapter"] for call in calls},
        sources={call["version_source"] for call in calls},
        taken=tuple(one for one in map(taken_by, calls) if one is not None),
        tables=sanitised["tables_sha256"] if sanitised else None,
        problems=tuple(problems_of_record(committed, episodes[seq - 1], record)),
        version_problems=tuple(problems_of_versions(committed, record)),
        invoked=asked_at,
        responded=answered_at,
        in_order=in_order,
    )


def times_of(calls: list[Document]) -> tuple[datetime, datetime, bool]:
    """Return the first call and the last answer, and whether no answer precedes what it follows."""
    asked, answered, in_order = [], [], True
    for call in calls:
        before = parsed_time(call["request"]["metadata"]["invoked_at"])
        asked.append(before)
        for attempt in call["attempts"]:
            at = parsed_time(attempt["response"]["responded_at"])
            in_order = in_order and before <= at
            before = at
        answered.append(before)
    return min(asked), max(answered), in_order


def end_of(call: Document) -> Document:
    """Return the response that a call ended with."""
    return call["attempts"][-1]["response"]  # type: ignore[no-any-return]


def rounds_differ(first: list[Document], second: list[Document]) -> bool:
    """Return whether a second round did not succeed everywhere with the same outputs."""
    ends = [[end_of(call) for call in calls] for calls in (first, second)]
    if len(ends[0]) != len(ends[1]) or any(end["status"] != "success" for end in ends[1]):
        return True
    outputs = [[canonical(end["output_data"]) for end in round_] for round_ in ends]
    return outputs[0] != outputs[1]


def problems_of_versions(committed: Committed, record: Document) -> Problems:
    """Yield where an accepted answer is another version's, or a mismatch reports none."""
    for call in record["calls"]:
        hop = committed.hops[call["hop"]]
        for attempt in call["attempts"]:
            response, reason = attempt["response"], attempt["reason"]
            reported = [response["construct_id"], response["construct_version"]]
            # Another version may answer better than the one that is certified.
            if reason in {None, MISFIT} and reported != [hop.construct_id, hop.version]:
                yield f"record {record['seq']}: an accepted answer of another version"
            if reason == MISMATCH and not isinstance(reported[1], str):
                yield f"record {record['seq']}: a mismatch that reports no version"


def problems_of_record(committed: Committed, episode: Document, record: Document) -> Problems:
    """Yield where a record says something else than was committed."""
    where = f"record {record['seq']}"
    if record["episode_id"] != episode["episode_id"]:
        yield f"{where}: another episode_id than the dataset's"
    members = {"seq", "episode_id", "sanitised", "calls"}
    if not committed.single_call:
        members |= {"runner", "episode_result"}
        yield from problems_of_play(committed, record)
    judged = record.keys() & {"judgements", "judge_seed"}
    if record.keys() - judged != members or len(judged) == 1:
        yield f"{where}: other members than a record has"
    seed = judge_seeds(committed, episode)
    if record.get("judge_seed", seed) != seed:
        yield f"{where}: another judge_seed than is drawn"
    several = isinstance(seed, list) and bool(judged)
    if several and not has_items(record["judgements"], committed.repeats):
        yield f"{where}: expected judgements of {committed.repeats} answers"
    yield from problems_of_sanitising(committed, episode, record)
    if committed.single_call:
        yield from problems_of_rounds(committed, record)
    for number in range(len(record["calls"])):
        yield from problems_of_call(committed, episode, record, number)


def has_items(value: object, count: int) -> bool:
    """Return whether a value is an array of so many objects."""
    return isinstance(value, list) and [*map(type, value)] == [dict] * count


def judge_seeds(committed: Committed, episode: Document) -> str | list[str]:
    """Return what the coin draws for a judge: for each answer, where there are several."""
    draw, name = committed.draws.draw, episode["episode_id"]
    if committed.repeats == 1:
        return draw("judge", name).hex()
    return [draw("judge", name, repeat).hex() for repeat in range(committed.repeats)]


def problems_of_call(
    committed: Committed, episode: Document, record: Document, number: int
) -> Problems:
    """Yield where a call is not the committed one, or its attempts are not."""
    call = record["calls"][number]
    where = f"record {record['seq']}, hop {call['hop']}, repeat {call['repeat']}"
    if not has_form(call, CALL) or call["hop"] < 0:
        yield f"{where}: a call of another form"
    hop = committed.hops[call["hop"]]
    if call["construct_id"] != hop.construct_id:
        yield f"{where}: expected {hop.construct_id!r}, got {call['construct_id']!r:.60}"
    if call["adapter"] != committed.activated["adapters"][hop.construct_id]:
        yield f"{where}: another adapter than the trail names"
    declared = call["adapter"].partition("@")[0] in DECLARED
    sources = ["declared"] if declared else ["computed", "claimed"]
    if call["version_source"] not in sources:
        yield f"{where}: expected {' or '.join(sources)}, got {call['version_source']!r:.40}"
    turn = 0 if committed.single_call else number
    place = committed.theatre_id, record["seq"], call["hop"], call["repeat"], turn
    if committed.single_call:
        yield from problems_of_input(record, episode, number)
    request = {
        "invocation_id": committed.draws.invocation_id(*place),
        "theatre_id": committed.theatre_id,
        "episode_id": committed.draws.alias(episode["episode_id"]),
        "construct_id": hop.construct_id,
        "construct_version": hop.version,
        "input_data": call["request"]["input_data"],
        "metadata": committed.metadata(hop, call["request"]["metadata"]["invoked_at"]),
    }
    yield from differs(f"{where}, request", request, call["request"])
    if record["sanitised"] and record["sanitised"]["wrong_keys"]:
        yield from problems_of_unsent(call, where)
    else:
        yield from problems_of_attempts(committed, hop, call, where)
        yield from problems_of_answers(committed, episode, call, where)


def problems_of_answers(
    committed: Committed, episode: Document, call: Document, where: str
) -> Problems:
    """Yield where an answer is not that of the committed log of another program."""
    if committed.answers is None:
        return
    line = committed.answers.get(episode["episode_id"])
    for attempt in call["attempts"]:
        if not is_recorded(line, call["request"], attempt, canonical):
            yield f"{where}: another answer than the committed log has"


def problems_of_rounds(committed: Committed, record: Document) -> Problems:
    """Yield where there are other calls than one of each hop, and again where that is committed."""
    calls, expected = record["calls"], []
    again = record["episode_id"] in committed.repeated
    for repeat in range(max(committed.repeats, 1 + again)):
        for hop in range(len(committed.hops)):
            expected.append([hop, repeat])
            made = calls[len(expected) - 1 : len(expected)]
            if not made or end_of(made[0])["status"] != "success":
                break
        else:
            continue
        if committed.repeats == 1:
            break
    # A call more is a second try; one less, a repeat whose answer would have differed.
    actual = [[call["hop"], call["repeat"]] for call in calls]
    yield from differs(f"record {record['seq']}, hops and repeats", expected, actual)


def problems_of_play(committed: Committed, record: Document) -> Problems:
    """Yield where an interactive episode has another runner, or continues behind a failed turn."""
    if record["runner"].partition("@")[0] != committed.runner:
        yield f"record {record['seq']}: another runner than was committed"
    succeeded = [end_of(call)["status"] == "success" for call in record["calls"]]
    if not all(succeeded[:-1]) or any(call["repeat"] != 0 for call in record["calls"]):
        yield f"record {record['seq']}: a turn behind one that failed, or a second round"
    if not succeeded[-1] and record["episode_result"] is not None:
        yield f"record {record['seq']}: a result of an episode that failed"


def problems_of_sanitising(committed: Committed, episode: Document, record: Document) -> Problems:
    """Yield where the sanitiser's record is not of this episode, or not the committed one's."""
    where, sanitised = f"record {record['seq']}, sanitised", record["sanitised"]
    if not committed.sanitises:
        yield from differs(where, None, sanitised)
        return
    sent = record["calls"][0]["request"]["input_data"]
    expected = {
        "sanitiser_version": committed.activated["sanitiser"],
        "role_markers": committed.input_spec.get("role_markers", "break"),
        "raw_fields": committed.input_spec.get("raw_fields", []),
        "raw_sha256": sha256(canonical(episode["input_data"])),
        "sent_sha256": sha256(canonical(sent)),
    }
    if not has_form(sanitised, SANITISED) or not SHA256.fullmatch(sanitised["tables_sha256"]):
        yield f"{where}: another form"
        return
    yield from differs(where, expected, {name: sanitised[name] for name in expected})
    yield from problems_of_changes(sanitised, where)


def problems_of_changes(sanitised: Document, where: str) -> Problems:
    """Yield where the numbers of changes are not those of the texts that are listed."""
    fields, changed, total = sanitised["fields"], sanitised["fields_changed"], sanitised["counts"]
    if not all(has_form(field, CHANGED_FIELD) for field in fields):
        yield f"{where}/fields: another form"
        return
    listed = Counter[str]()
    for field in fields:
        listed.update(field["counts"])
    counts = [total, *(field["counts"] for field in fields)]
    if (
        len(fields) != min(changed, MAX_LISTED)
        or (changed <= MAX_LISTED and total != listed)
        or not all(type(number) is int for one in counts for number in one.values())
    ):
        yield f"{where}: other counts than the texts that are listed add up to"
    # A text that was changed and is not listed could carry a hint.
    if not changed and sanitised["raw_sha256"] != sanitised["sent_sha256"]:
        yield f"{where}: another input was sent, and no text was changed"
    if not all(isinstance(one, str) for one in sanitised["wrong_keys"]):
        yield f"{where}/wrong_keys: another form"


def problems_of_attempts(committed: Committed, hop: Hop, call: Document, where: str) -> Problems:
    """Yield where attempts have another form, or were made against what was committed."""
    attempts = call["attempts"]
    most = committed.retry_policy["max_retries"] + 1
    if not 1 <= len(attempts) <= most:
        yield f"{where}: expected 1 to {most} attempts, got {len(attempts)}"
    for number, attempt in enumerate(attempts, 1):
        yield from problems_of_attempt(hop, call, attempt, where)
        response, reason = attempt["response"], attempt["reason"]
        # Who may try again after an answer keeps the best of several.
        again = response["status"] in FAILURES and reason not in FINAL and number < most
        if again != (number < len(attempts)):
            word = "not tried" if again else "tried"
            yield f"{where}: {word} again after {response['status']!r:.40}"
        if reason == UNSENDABLE:
            yield f"{where}: {UNSENDABLE}, and all its names could be sent"


def problems_of_unsent(call: Document, where: str) -> Problems:
    """Yield where a call that no sanitiser lets pass says that anything was sent."""
    if len(call["attempts"]) != 1 or call["hop"] != 0:
        yield f"{where}: more than one attempt, and nothing may be sent"
    attempt = call["attempts"][0]
    if not is_attempt(attempt) or not has_form(attempt["response"], RESPONSE):
        yield f"{where}: an attempt of another form"
        return
    expected = {"reason": UNSENDABLE, "raw": None, "stderr": None}
    expected |= {"construct_id": None, "construct_version": None, "status": "error"}
    said = attempt | attempt["response"]
    yield from differs(where, expected, {name: said[name] for name in expected})
    yield from problems_of_response(call, attempt, where)


def is_attempt(attempt: object) -> bool:
    """Return whether a value has the form of an attempt, with a provider's counts or without."""
    if has_form(attempt, WITH_USAGE):
        return is_usage(attempt["usage"])
    return has_form(attempt, ATTEMPT)


def problems_of_attempt(hop: Hop, call: Document, attempt: Document, where: str) -> Problems:
    """Yield where an attempt contradicts itself."""
    if not is_attempt(attempt) or not has_form(attempt["response"], RESPONSE):
        yield f"{where}: an attempt of another form"
        return
    yield from problems_of_response(call, attempt, where)
    response, reason = attempt["response"], attempt["reason"]
    if reason == "" or (reason == "timeout" and response["status"] != "timeout"):
        yield f"{where}: {response['status']!r:.40} with the reason {reason!r:.40}"
    if reason is None and attempt["raw"] is not None:
        yield f"{where}: an answer that was accepted, and kept as one that was not"
    if reason == MISFIT:
        if not hop.shaped or response["status"] != "error":
            yield f"{where}: {reason}, and no output_spec was committed, or another status"
        yield from problems_of_raw(attempt["raw"], where)


def problems_of_response(call: Document, attempt: Document, where: str) -> Problems:
    """Yield where a response is to another call, or its status and the rest disagree."""
    response, accepted = attempt["response"], attempt["reason"] is None
    status, detail = response["status"], response["error_detail"]
    wanted = call["request"]["invocation_id"]
    yield from differs(f"{where}, response", wanted, response["invocation_id"])
    if status not in STATUSES or (not accepted and status not in FAILURES):
        yield f"{where}: {status!r:.40} with the reason {attempt['reason']!r:.40}"
    if response["latency_ms"] < 0:
        yield f"{where}: a latency below 0"
    if status == "success" and response["output_data"] is None:
        yield f"{where}: a success without output_data"
    # An answer that was refused must not be scored.
    if not accepted and response["output_data"] is not None:
        yield f"{where}: output_data of an answer that was not accepted"
    if detail is None and status != "success":
        yield f"{where}: {status!r:.40} without error_detail"
    if detail is not None and len(detail) > MAX_DETAIL:
        yield f"{where}: error_detail of more than {MAX_DETAIL} characters"


def problems_of_raw(raw: str | None, where: str) -> Problems:
    """Yield where the output that did not fit is not kept, as canonical JSON or cut short."""
    output: object = None
    if raw is not None:
        with suppress(DefectError):
            output = parsed(raw.encode(), "raw")
    if isinstance(output, dict):
        kept = canonical(output) == str(raw).encode()
    else:
        kept = raw is not None and len(canonical(raw)) >= RAW_IN_FULL
    if not kept:
        yield f"{where}: {MISFIT} without the output as canonical JSON in raw"


def problems_of_input(record: Document, episode: Document, number: int) -> Problems:
    """Yield where a construct was sent something else; what a sanitiser made is not known here."""
    calls = record["calls"]
    call, before = calls[number], {(one["repeat"], one["hop"]): one for one in calls[:number]}
    sent = calls[0]["request"]["input_data"]
    if record["sanitised"] is None:
        sent = episode["input_data"]
    expected = sent
    if call["hop"]:
        upstream = [before[call["repeat"], hop] for hop in range(call["hop"])]
        outputs = {one["construct_id"]: end_of(one)["output_data"] for one in upstream}
        expected = {"episode": sent, "upstream": outputs}
    # An easier question than the committed one has an easier answer.
    if canonical(expected) != canonical(call["request"]["input_data"]):
        yield f"record {record['seq']}, hop {call['hop']}: another input than was committed"
