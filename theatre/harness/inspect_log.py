"""Logs of inspect_ai: `.eval`, a zip of JSON that is read sample by sample, and `.json`.

Read with the standard library. Newer versions of inspect_ai compress with Zstandard (method 93),
which `zipfile` knows from Python 3.14 on: before, the package of the extra `harness` is used, and
where it is not there the error names the extra, and the command that converts the log.
"""

from __future__ import annotations

import io
import json
import struct
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit, urlunsplit

from theatre.harness.samples import (
    HarnessLog,
    HarnessLogError,
    HarnessSample,
    Measure,
    criterion_name,
    identifier,
    read_score,
    unit_score,
)

COMPLETION, TARGET = "completion", "target"
_ZSTANDARD = 93
_LETTERS = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0}
"""What inspect_ai's own value_to_float makes of the letters that its scorers give."""
_MEANS = ("accuracy", "mean")
_MOST_BYTES = 1 << 30


def read_inspect_log(path: Path, *, with_scores: bool = True) -> HarnessLog:
    """Read a finished log, or its questions alone; HarnessLogError for anything else."""
    header = _header(path)
    spec = header.get("eval")
    if not isinstance(spec, dict) or header.get("status") != "success":
        raise HarnessLogError(
            f"expected a log with the status success in {path}, got {header.get('status')!r:.40}: "
            "finish the evaluation, for example with inspect eval-retry"
        )
    measures = tuple(_measures(header)) if with_scores else ()

    def samples() -> Iterator[HarnessSample]:
        return (
            read_sample(document, measures, epochs=int(spec["config"].get("epochs") or 1))
            for document in _samples(path)
        )

    return HarnessLog(
        harness=harness_pin(spec),
        construct=identifier(spec["model"]),
        declared=declared(spec, header.get("plan") or {}),
        measures=measures,
        samples=samples,
    )


def harness_pin(spec: dict[str, Any]) -> str:
    """Return `inspect_ai@version`."""
    return f"inspect_ai@{spec.get('packages', {}).get('inspect_ai', 'unknown')}"


def declared(spec: dict[str, Any], plan: dict[str, Any]) -> dict[str, Any]:
    """Return what is said to have been asked: model, parameters, solvers and the task's revision.

    And, where they are set, what else decides about answers: where the model is, other models in
    roles, limits of a sample, approval and sandbox. What answers cannot be seen from here. Mocked
    outputs are left out: they are the answers. So is what may be a key, as a template is public:
    values of further headers, user and query of an address.
    """
    arguments = {name: at for name, at in spec["model_args"].items() if name != "custom_outputs"}
    steps = [{"solver": one.get("solver"), "params": one.get("params")} for one in plan["steps"]]
    config = spec.get("config") or {}
    deciding = {name: at for name, at in config.items() if name.endswith("_limit")} | {
        "approval": config.get("approval"),
        "model_base_url": _address(spec.get("model_base_url")),
        "model_roles": {
            name: one
            | {
                "base_url": _address(one.get("base_url")),
                "config": _parameters(one.get("config") or {}),
            }
            for name, one in (spec.get("model_roles") or {}).items()
        },
        "sandbox": spec.get("sandbox"),
    }
    return {
        **{name: _plain(at) for name, at in deciding.items() if at},
        "model": spec["model"],
        "model_args": _plain(arguments),
        "model_generate_config": _plain(_parameters(spec["model_generate_config"])),
        "solvers": _plain(steps),
        "task": spec["task"],
        "task_args": _plain(spec.get("task_args") or {}),
        "task_version": str(spec.get("task_version")),
        "revision": _plain(spec.get("revision")),
    }


def read_sample(
    document: dict[str, Any], measures: tuple[Measure, ...], *, epochs: int
) -> HarnessSample:
    """Read one sample of a log; raises HarnessLogError for what is none."""
    try:
        name, epoch, target = str(document["id"]), document["epoch"], document["target"]
        output, scores = document.get("output") or {}, document.get("scores") or {}
        completion = _completion(output)
        failed = document.get("error")
    except (KeyError, TypeError, AttributeError) as error:
        raise HarnessLogError(
            f"expected a sample of inspect_ai, got one without {error}"
        ) from error
    # A scorer that gives several numbers at once has a score of each name in the summary.
    given = {name: (score or {}).get("value") for name, score in scores.items()}
    several = [value for value in given.values() if isinstance(value, dict)]
    values = {
        criterion_name(one): value
        for members in (given, *several)
        for one, value in members.items()
        if not isinstance(value, dict)
    }
    return HarnessSample(
        episode_id=name if epochs == 1 else f"{name}-epoch-{epoch}",
        cluster_key=None if epochs == 1 else name,
        input_data={"input": _question(document["input"])},
        expected_output={TARGET: target if isinstance(target, list) else [target]},
        output_data=None if failed else {COMPLETION: completion},
        scores={
            one.name: read_score(_number(values.get(one.name)), f"{one.name} of sample {name}")
            for one in measures
        },
        error=str(failed.get("message")) if isinstance(failed, dict) else None,
    )


def _question(value: Any) -> Any:  # noqa: ANN401  # a text, or messages
    """Return what was asked; of messages role and content, as their ids are drawn anew."""
    if not isinstance(value, list):
        return _plain(value)
    return [{"role": one["role"], "content": _plain(one["content"])} for one in value]


def measure_of(name: str, params: dict[str, Any], reported: float | None) -> Measure:
    """Return a measure with the scorer of ours that gives what inspect_ai's of that name gives."""
    at = {"field": COMPLETION, "expected": TARGET}
    ignores = params.get("ignore_case", True)
    place = {"begin": "begin", "end": "end", "exact": "whole"}.get(params.get("location", "end"))
    if name == "match" and place and not params.get("numeric"):
        own = {"at": place, "ignore_case": ignores, "ignore_punctuation": True}
        return Measure(name="match", scorer="text_match", params={**at, **own}, reported=reported)
    if name == "includes":
        # With several targets inspect_ai wants one of them, ours all: a difference is shown.
        return Measure(
            name=name,
            scorer="contains_terms",
            params={**at, "case": not ignores},
            reported=reported,
        )
    return Measure(name=criterion_name(name), reported=reported)


def _measures(header: dict[str, Any]) -> Iterator[Measure]:
    seen = set()
    for one in (header.get("results") or {}).get("scores") or []:
        metrics = one.get("metrics") or {}
        mean = next((metrics[name]["value"] for name in _MEANS if name in metrics), None)
        measure = measure_of(one["name"], one.get("params") or {}, unit_score(mean))
        # With a reducer over epochs there is an entry for each: the first is the plain mean.
        if measure.name not in seen:
            seen.add(measure.name)
            yield measure


def _completion(output: dict[str, Any]) -> str:
    """Return the text that inspect_ai's scorers see: a solver may set it without a choice."""
    if isinstance(output.get("completion"), str):
        return str(output["completion"])
    choices = output.get("choices") or []
    content = choices[0]["message"]["content"] if choices else ""
    if isinstance(content, str):
        return content
    return "\n".join(part["text"] for part in content if part.get("type") == "text")


def _number(value: Any) -> Any:  # noqa: ANN401  # a log may hold anything that JSON can
    return _LETTERS.get(value, value) if isinstance(value, str) else value


def _address(url: str | None) -> str | None:
    if url is None:
        return None
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def _parameters(config: dict[str, Any]) -> dict[str, Any]:
    headers = config.get("extra_headers")
    return config | {"extra_headers": sorted(headers)} if headers else config


def _plain(value: Any) -> Any:  # noqa: ANN401  # a log may hold anything that JSON can
    """Return a value without what has no canonical form: such a number becomes text."""
    if isinstance(value, dict):
        return {str(name): _plain(at) for name, at in value.items()}
    if isinstance(value, list):
        return [_plain(one) for one in value]
    if isinstance(value, float | int) and not isinstance(value, bool):
        is_safe = abs(value) < 1 << 53
        return value if is_safe else str(value)
    return value


def _header(path: Path) -> dict[str, Any]:
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            if "header.json" not in archive.namelist():
                raise HarnessLogError(
                    f"expected a finished log of inspect_ai, got {path} without its header.json"
                )
            return _entry(archive, "header.json", path)
    return {name: at for name, at in _whole(path).items() if name != "samples"}


def _samples(path: Path) -> Iterator[dict[str, Any]]:
    if not zipfile.is_zipfile(path):
        yield from _whole(path).get("samples") or []
        return
    with zipfile.ZipFile(path) as archive:
        seen = set()
        for name in archive.namelist():
            if name.startswith("samples/") and name not in seen:
                seen.add(name)
                yield _entry(archive, name, path)


def _whole(path: Path) -> dict[str, Any]:
    if path.stat().st_size > _MOST_BYTES:
        raise HarnessLogError(f"expected at most {_MOST_BYTES} bytes of JSON in {path}, got more")
    return _document(path.read_bytes(), str(path))


def _entry(archive: zipfile.ZipFile, name: str, path: Path) -> dict[str, Any]:
    info = archive.getinfo(name)
    if info.file_size > _MOST_BYTES:
        raise HarnessLogError(f"expected at most {_MOST_BYTES} bytes in {name} of {path}, got more")
    try:
        raw = archive.read(info)
    except NotImplementedError:
        if info.compress_type != _ZSTANDARD or archive.fp is None:
            raise HarnessLogError(
                f"expected {name} of {path} stored, deflated or with Zstandard, got method "
                f"{info.compress_type}"
            ) from None
        raw = _unpack_zstandard(archive.fp, info, path)
    except (zipfile.BadZipFile, EOFError) as error:
        raise HarnessLogError(f"expected a whole log in {path}, got {error}") from error
    return _document(raw, f"{name} of {path}")


def _unpack_zstandard(handle: IO[bytes], info: zipfile.ZipInfo, path: Path) -> bytes:
    try:
        import zstandard  # noqa: PLC0415  # only newer logs need it, and only before Python 3.14
    except ModuleNotFoundError:
        raise HarnessLogError(
            f"expected a log that this Python can unpack, got {path}, which is compressed with "
            "Zstandard: pip install 'echelon-theatre[harness]', or convert it with "
            f"inspect log convert {path} --to json --output-dir json-logs"
        ) from None
    handle.seek(info.header_offset + 26)
    skipped = sum(struct.unpack("<HH", handle.read(4)))
    handle.seek(info.header_offset + 30 + skipped)
    packed = io.BytesIO(handle.read(info.compress_size))
    try:
        with zstandard.ZstdDecompressor().stream_reader(packed, read_across_frames=True) as reader:
            raw: bytes = reader.read(info.file_size + 1)
    except zstandard.ZstdError as error:
        raise HarnessLogError(f"expected a whole log in {path}, got {error}") from error
    return raw


def _document(raw: bytes, where: str) -> dict[str, Any]:
    try:
        document = json.loads(raw, parse_constant=str)
    except (ValueError, RecursionError) as error:
        raise HarnessLogError(f"expected JSON in {where}, got {error}") from error
    if not isinstance(document, dict):
        raise HarnessLogError(f"expected a JSON object in {where}, got another value")
    return document
