"""A refusal says where, which rule, what was expected and the kind of what was seen: no value."""

import copy
from typing import Any

import pytest

from backend.main import create_app
from tests.backend.databases import Database
from tests.backend.serving import Client, Reply, served, settings_for
from tests.backend.test_ratings import answers, rated, waiting
from tests.backend.theatre_templates import cartograph, with_config
from tests.theatre.rated_runs import AGGREGATE, rating, rubric_step
from tests.theatre.template_leaves import leaves, with_leaf
from theatre.engine.canonical_json import JsonObject, canonical_line

TEXT = "c4n4ry-\u2028-text"
NUMBER = 918273645
LINES = {"Content-Type": "application/x-ndjson"}


@pytest.fixture(scope="module")
def ada(anybody: Client) -> Client:
    return anybody.registered("ada")


def template() -> dict[str, Any]:
    """Return a template with something of everything that rules look at."""
    call, *_ = cartograph()["resolution_programme"]
    call["input_spec"] = {"role_markers": "break", "raw_fields": ["/text"]}
    compute = {
        "step_id": "compute",
        "type": "deterministic_computation",
        "input_spec": {"computation": "chain_integrity", "over": "episodes", "params": {}},
    }
    criterion = cartograph()["criteria"]["criteria_ids"][0]
    return with_config(
        cartograph(
            resolution_programme=[call, compute, rubric_step(), AGGREGATE],
            hitl_steps=[rating(criterion_id=criterion)],
        ),
        construct_endpoints={"cartograph": {"adapter_type": "local", "endpoint": "construct:c"}},
        gold_label_set="gold.jsonl",
        dataset_paths={"log": "log.jsonl"},
    )


def words_of(reply: Reply) -> str:
    """Return everything that a problem says but its pointers, which name members."""
    if reply.status < 400:
        return ""
    problem = reply.document
    texts = [problem["title"], problem["detail"], *(one["rule"] for one in problem["errors"])]
    return "\n".join([*texts, *(one["detail"] for one in problem["errors"])])


def dry_run(client: Client, document: object) -> Reply:
    return client.post("/theatres?dry_run=true", {"template_json": document})


@pytest.mark.parametrize("canary", [TEXT, NUMBER, [TEXT], {TEXT: TEXT}], ids=repr)
def test_no_value_at_any_place_of_a_template_comes_back(ada: Client, canary: object) -> None:
    def put(holder: Any, key: str | int) -> None:  # noqa: ANN401 - a part of a document
        holder[key] = copy.deepcopy(canary)

    refused = 0
    for path in leaves(template()):
        reply = dry_run(ada, with_leaf(template(), path, put))
        refused += reply.status >= 400
        assert "c4n4ry" not in words_of(reply), path
        assert str(NUMBER) not in words_of(reply), path
    assert refused > 50


def test_no_name_of_a_member_comes_back_but_in_a_pointer(ada: Client) -> None:
    objects = {path[:-1] for path in leaves(template())}
    for path in sorted(objects, key=str):
        changed = with_leaf(template(), (*path, TEXT), lambda holder, key: add(holder, str(key)))
        assert "c4n4ry" not in words_of(dry_run(ada, changed)), path


def add(holder: Any, key: str) -> None:  # noqa: ANN401 - a part of a document
    if isinstance(holder, dict):
        holder[key] = 1
    else:
        holder.append(key)


def test_what_is_told_instead_is_enough_to_find_the_fault(ada: Client) -> None:
    changed = with_config(cartograph(), replay_data_path=f"../{TEXT}")
    changed["criteria"]["weights"] = 7
    assert dry_run(ada, changed).document["errors"] == [
        {
            "pointer": "/criteria/weights",
            "rule": "schema:type",
            "detail": "expected object, got integer",
        },
        {
            "pointer": "/product_theatre_config/replay_data_path",
            "rule": "dataset-path-inside-root",
            "detail": "expected a path that stays inside its dataset root (no ..), got a text of "
            f"{len(TEXT) + 3} characters",
        },
    ]


def test_nothing_of_a_dataset_comes_back(ada: Client) -> None:
    for line in (f'{{"a": "{TEXT}", "a": 1}}', f'{{"{TEXT}": 1, "{TEXT}": 2}}', f'"{TEXT}"'):
        reply = ada.ask("POST", "/datasets", body=f"{line}\n".encode(), headers=LINES)
        assert (reply.status, reply.slug) == (422, "dataset-unavailable")
        assert "c4n4ry" not in reply.body.decode()
    for lines in (
        canonical_line({TEXT: 1}),
        canonical_line({"episode_id": TEXT, "input_data": TEXT}),
        canonical_line({"episode_id": TEXT, "input_data": {}}) * 2,
    ):
        sha256 = ada.ask("POST", "/datasets", body=lines, headers=LINES).document["sha256"]
        named = with_config(cartograph(), replay_data_path=f"dataset:{sha256}")
        named["dataset_hashes"] = dict.fromkeys(named["dataset_hashes"], sha256)
        path = ada.post("/theatres", {"template_json": named}).headers["location"]
        refused = ada.post(f"{path}/commit", b"")
        assert (refused.status, refused.slug) == (422, "dataset-unavailable")
        assert "c4n4ry" not in refused.body.decode()
        assert sha256 not in refused.body.decode()


def test_nothing_of_other_documents_comes_back(ada: Client) -> None:
    path = f"/theatres/{ada.post('/theatres', {'template_json': cartograph()}).document['id']}"
    expected = ada.post(f"{path}/commit", {"expected_commitment_hash": "c4" * 32})
    assert (expected.slug, "c4c4" in expected.body.decode()) == ("commitment-refused", False)
    for target in (f"{path}/commit", f"{path}/run", "/constructs", "/keys", "/auth/register"):
        for body in ({TEXT: 1}, {"construct_id": f"\0{TEXT}"}, {"name": TEXT, "scopes": [TEXT]}):
            assert "c4n4ry" not in words_of(ada.post(target, body)), (target, body)
    for query in (
        "state=c4n4ry",
        "cursor=c4n4ry",
        "limit=c4n4ry",
        "c4n4ry=1",
        "limit=1&limit=c4n4ry",
    ):
        assert "c4n4ry" not in ada.get(f"/theatres?{query}").body.decode()


def test_nothing_of_human_scores_comes_back(
    database: Database, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("rated")
    stage = rated(folder / "stage")
    with served(create_app(settings_for(database, folder / "home", **stage.settings))) as client:
        ada, bob = client.registered("ada"), client.registered("bob")
        path = waiting(ada, stage)
        good = answers(bob.get(f"{path}/hitl").document)
        wrong: list[JsonObject] = [
            {"value": NUMBER},
            {"episode_id": TEXT},
            {"rationale": f"\u202e{TEXT}"},
        ]
        for change in wrong:
            scores = [one | change for one in good["scores"]]
            refused = bob.post(f"{path}/hitl/taste/scores", {**good, "scores": scores})
            assert (refused.status, refused.slug) in {
                (422, "human-score-refused"),
                (409, "duplicate-submission"),
            }
            assert "c4n4ry" not in refused.body.decode()
            assert str(NUMBER) not in refused.body.decode()
        step = bob.post(f"{path}/hitl/{'c4n4ry'}/scores", good)
        assert step.status >= 400
        assert "c4n4ry" not in step.body.decode()
