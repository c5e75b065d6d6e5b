"""A small theatre for the tests of the command line: its construct doubles a number."""

import asyncio
import hashlib
import json
import tomllib
from pathlib import Path
from typing import Any

from tests.theatre.echelon_process import Answer
from tests.theatre.forked_echelon import forked
from tests.theatre.oracles.loopback import Received, envelope, response
from theatre.engine.oracle_contract import program_version, served_argv

EPISODES = 8
PIN = "c0ffee" + "0" * 58

MODULE = '''
"""Doubles a number; prints, which must not disturb the protocol."""

from theatre.construct_kit import construct


@construct(id="doubler")
def double(input_data: dict) -> dict:
    print("thinking")
    return {"result": 2 * input_data["number"]}
'''


# The kit's own server, started by the runner.
SERVED = """
[constructs.doubler]
argv = ["{python}", "-m", "theatre.construct_kit", "--socket", "--folder", "{folder}", "doubling:double"]
folder = "."
files = ["doubling.py"]
serves_http = true
"""  # noqa: E501 - one line, as an author would write it


CALLABLE = "doubling:double"


def write_module(folder: Path, registry: str | None = None) -> str:
    """Write `doubling.py`; return its version, as a callable or as a registry runs it."""
    (folder / "doubling.py").write_text(MODULE, encoding="utf-8")
    argv = served_argv(CALLABLE)
    if registry is not None:
        argv = tomllib.loads(registry)["constructs"]["doubler"].get("argv", ())
    return program_version(argv, {"doubling.py": hashlib.sha256(MODULE.encode()).hexdigest()})


def write_theatre(
    folder: Path,
    *,
    adapter_type: str,
    endpoint: str | None = None,
    version: str = PIN,
    policy: dict[str, Any] | None = None,
    config: dict[str, Any] | None = None,
    **changes: object,
) -> Path:
    """Write data and template into `folder`; return the template's path.

    `policy` and `config` go over the execution policy and the product config, `changes` over
    the whole.
    """
    numbers = range(1, EPISODES + 1)
    dataset = "".join(
        json.dumps(
            {
                "episode_id": f"e{number}",
                "input_data": {"number": number},
                "expected_output": {"double": 2 * number},
            }
        )
        + "\n"
        for number in numbers
    ).encode()
    (folder / "numbers.jsonl").write_bytes(dataset)
    place = {} if endpoint is None else {"adapter_endpoint": endpoint}
    template = {
        "schema_version": "2.1.0",
        "theatre_id": "product_doubler_v1",
        "template_family": "PRODUCT",
        "execution_path": "replay",
        "display_name": "Doubler",
        "criteria": {"criteria_ids": ["right"], "criteria_human": "Twice the number."},
        "version_pins": {
            "constructs": {"doubler": version},
            "scorer_version": "exact_match@1",
            "adapter_version": f"{adapter_type}@1",
        },
        "scorer_pins": {"exact_match": "1"},
        "dataset_hashes": {"numbers": hashlib.sha256(dataset).hexdigest()},
        "resolution_programme": [
            {"step_id": "call", "type": "construct_invocation", "construct_id": "doubler"},
            {"step_id": "sum", "type": "aggregation"},
        ],
        "fork_definitions": [
            {
                "fork_id": "f_01",
                "options": [
                    {"option_id": "meets", "label": "Right"},
                    {"option_id": "falls_short", "label": "Wrong"},
                ],
            }
        ],
        "scoring": {
            "criteria_scorers": {
                "right": {
                    "scorer": "exact_match",
                    "params": {"field": "result", "expected": "double"},
                }
            }
        },
        "execution_policy": {
            "sanitise_input": False,
            "retry_policy": {"max_retries": 0, "backoff_seconds": 0},
            **(policy or {}),
        },
        "product_theatre_config": {
            "ground_truth_source": "CUSTOM",
            "construct_under_test": "doubler",
            "adapter_type": adapter_type,
            "replay_dataset_id": "numbers",
            "replay_data_path": "numbers.jsonl",
            **place,
            **(config or {}),
        },
        **changes,
    }
    path = folder / "template.json"
    path.write_text(json.dumps(template), encoding="utf-8")
    return path


async def double(request: Received, writer: asyncio.StreamWriter) -> None:
    """Answer as the construct, from a server of the test."""
    number = request.envelope["input_data"]["number"]
    writer.write(response(envelope(request, output_data={"result": 2 * number})))


def run(
    template: Path, *options: str, allow: str = "", more: dict[str, str] | None = None
) -> Answer:
    """Run a template; calls may go to `allow` beside public addresses."""
    variables = {**({"ECHELON_OUTBOUND_ALLOW": allow} if allow else {}), **(more or {})}
    home = template.parent / "home"
    return forked("theatre", "run", template, "--json", *options, home=home, more=variables)
