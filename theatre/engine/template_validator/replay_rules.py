"""Rules on data and adapters of a replay (docs/contract/template.md §3).

Pure: whether a file exists and holds the committed bytes is asked at commit and at run.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import PureWindowsPath
from typing import cast
from urllib.parse import urlsplit

from theatre.engine.canonical_json import JsonObject, JsonValue, parse_json
from theatre.engine.errors import CanonicalisationError, ParseError
from theatre.engine.oracle_contract import RECORDED_ADAPTERS, pinned_version
from theatre.engine.schema_registry import Quoted, json_pointer, phrase
from theatre.engine.template_validator.subject import Finding, Rule, Subject
from theatre.engine.templates import GOLD_LABELS, NEWEST

# Where a template may say its constructs are.
#
# Source: docs/contract/template.md, docs/contract/construct.md.
#
# A template names places, never programs, unless it comes from the machine it will run on.


_CONFIG = "product_theatre_config"
_REGISTERED = re.compile(r"construct:\S+")
_BEHIND_THE_PLACE = re.compile(r"[?#]")
_IMAGE = re.compile(r"[a-z0-9][a-z0-9._/:-]{0,200}@sha256:[a-f0-9]{64}")
_CALLABLE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


def _endpoint_form(subject: Subject) -> Iterator[Finding]:
    for pointer, adapter, endpoint in _endpoints(subject):
        form = _FORMS.get(adapter)
        if form is None or not endpoint or _REGISTERED.fullmatch(endpoint):
            continue
        wording, fits, on_this_machine_only = form
        # Over HTTP the rule of python adapters says which callable can be named.
        if on_this_machine_only and subject.from_api and adapter != "python":
            yield pointer, phrase("expected construct:<id>, got ", Quoted(endpoint))
        elif not fits(endpoint):
            yield (pointer, phrase(f"expected construct:<id> or {wording}, got ", Quoted(endpoint)))


def _python_adapter_local(subject: Subject) -> Iterator[Finding]:
    """Over HTTP a python adapter names a module that the operator lists, exactly so."""
    config = subject.config
    own = config.construct_endpoints
    for pointer in _adapters(subject, "python") if subject.from_api else ():
        at = next(
            (one.endpoint for name, one in own.items() if pointer == _own_adapter(name)),
            config.adapter_endpoint or "",
        )
        if not _CALLABLE.fullmatch(at) or at.partition(":")[0] not in subject.python_modules:
            wanted = "python with module:name of a module that the operator lists"
            yield (
                pointer,
                f"expected http, local with a registered construct, or {wanted}; got other python",
            )


def _recorded_adapter_local(subject: Subject) -> Iterator[Finding]:
    for name in sorted(RECORDED_ADAPTERS) if subject.from_api else ():
        for pointer in _adapters(subject, name):
            yield pointer, f"expected http, or local with a registered construct; got {name}"


def _recorded_adapter_complete(subject: Subject) -> Iterator[Finding]:
    """Yield what a template of recorded answers lacks, or commits to and no run could carry out."""
    config = subject.config
    if not config.adapter_types & RECORDED_ADAPTERS:
        if config.harness is not None:
            pointer = json_pointer(_CONFIG, "harness")
            yield pointer, "expected a harness only where adapter_type is imported or harness"
        return
    alone = not config.construct_endpoints and len(config.construct_chain) < 2  # noqa: PLR2004  # a chain
    if not alone or config.episode_runner != "single_call":
        yield json_pointer(_CONFIG), "expected one construct, asked once an episode, got more"
    if config.adapter_type == "harness" and config.harness is None:
        yield json_pointer(_CONFIG), "expected the harness as name@version, got none"
    named = config.adapter_endpoint
    if config.adapter_type == "imported" and named not in config.dataset_paths:
        got = "none" if named is None else "another"
        pointer = json_pointer(_CONFIG, "adapter_endpoint")
        yield pointer, f"expected the name of one of dataset_paths, with the answers, got {got}"


def _endpoints(subject: Subject) -> Iterator[tuple[str, str, str]]:
    config = subject.config
    if config.adapter_endpoint is not None:
        pointer = json_pointer(_CONFIG, "adapter_endpoint")
        yield pointer, config.adapter_type, config.adapter_endpoint
    for construct, own in config.construct_endpoints.items():
        pointer = json_pointer(_CONFIG, "construct_endpoints", construct, "endpoint")
        yield pointer, own.adapter_type, own.endpoint


def _adapters(subject: Subject, wanted: str) -> Iterator[str]:
    if subject.config.adapter_type == wanted:
        yield json_pointer(_CONFIG, "adapter_type")
    for construct, own in subject.config.construct_endpoints.items():
        if own.adapter_type == wanted:
            yield _own_adapter(construct)


def _own_adapter(construct: str) -> str:
    return json_pointer(_CONFIG, "construct_endpoints", construct, "adapter_type")


def _is_web_address(endpoint: str) -> bool:
    try:
        parts = urlsplit(endpoint)
        is_place = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
    # A template is public: behind the place is where keys are carried. Userinfo has its own rule.
    return is_place and not _BEHIND_THE_PLACE.search(endpoint)


def _is_argument_list(endpoint: str) -> bool:
    try:
        words = parse_json(endpoint.encode("utf-8", "surrogatepass"))
    except ParseError:
        return False
    return isinstance(words, list) and bool(words) and all(isinstance(word, str) for word in words)


def _is_callable_name(endpoint: str) -> bool:
    return _CALLABLE.fullmatch(endpoint) is not None


def _is_image(endpoint: str) -> bool:
    return _IMAGE.fullmatch(endpoint) is not None


# Constructs that know no envelope: what is asked of them is a part of the template.


_SETTINGS: Mapping[str, tuple[frozenset[str], frozenset[str]]] = {
    **dict.fromkeys(
        ("openai", "anthropic"),
        (
            frozenset({"model"}),
            frozenset({"system", "prompt", "parameters", "key_env", "prices", "answer"}),
        ),
    ),
    "mcp": (frozenset({"tool", "tool_sha256"}), frozenset({"arguments", "key_env", "answer"})),
    "command": (frozenset(), frozenset({"prompt", "input", "answer"})),
    "container": (frozenset(), frozenset({"prompt", "input", "answer", "argv"})),
}
"""Adapter type → the settings that it needs, and those that it takes as well."""

_OURS_IN_BODY = frozenset({"messages", "model", "n", "stream", "system"})


def _settings(subject: Subject) -> Iterator[tuple[str, str, str, str, JsonObject]]:
    config = subject.config
    if subject.template.schema_version != NEWEST:
        return
    under_test = config.construct_under_test
    pointer = json_pointer(_CONFIG, "adapter_settings")
    place = config.adapter_endpoint or f"construct:{under_test}"
    yield pointer, under_test, config.adapter_type, place, config.adapter_settings
    for construct, own in config.construct_endpoints.items():
        at = json_pointer(_CONFIG, "construct_endpoints", construct, "adapter_settings")
        yield at, construct, own.adapter_type, own.endpoint, own.adapter_settings


def _adapter_settings(subject: Subject) -> Iterator[Finding]:
    for pointer, _, adapter, place, settings in _settings(subject):
        needed, also = _SETTINGS.get(adapter, (frozenset[str](), frozenset[str]()))
        for name in sorted(needed - settings.keys()):
            yield pointer, f"expected member {name} with {adapter}, got none"
        for name in sorted(settings.keys() - needed - also):
            taken = ", ".join(sorted(needed | also)) or "no settings"
            at = f"{pointer}/{name}"
            yield at, phrase(f"expected {taken} with {adapter}, got ", Quoted(name, spelt=str))
        parameters = cast("JsonObject | None", settings.get("parameters"))
        for name in sorted(_OURS_IN_BODY.intersection(parameters or ())):
            yield (
                f"{pointer}/parameters/{name}",
                f"expected parameters without {name}, got it: the adapter sets it",
            )
        by_word = settings.get("input") in {"argument", "file"}
        words = str(settings.get("argv", "")) if adapter == "container" else place
        if by_word and "{input}" not in words and not _REGISTERED.fullmatch(place):
            yield f"{pointer}/input", "expected {input} among the arguments, got none"
        yield from _answer_form(pointer, settings.get("answer"))


def _answer_form(pointer: str, answer: JsonValue) -> Iterator[Finding]:
    """Yield what is wrong with how an answer is to be read."""
    form = answer if isinstance(answer, dict) else {"from": "text"}
    source, regex = form.get("from"), form.get("regex")
    for name, owner in (("regex", "regex"), ("pointer", "json")):
        if name in form and source != owner:
            yield f"{pointer}/answer/{name}", f"expected it only with from {owner}"
    if source != "regex":
        return
    if regex is None:
        yield f"{pointer}/answer", "expected member regex with from regex, got none"
    try:
        re.compile(regex if isinstance(regex, str) else "")
    except re.error as error:
        yield f"{pointer}/answer/regex", f"expected a regular expression of Python, got: {error}"


def _adapter_registered(subject: Subject) -> Iterator[Finding]:
    """Over HTTP the operator says where models are, who holds keys, and what may run long."""
    for pointer, _, adapter, place, settings in _settings(subject) if subject.from_api else ():
        if adapter not in _SETTINGS:
            continue
        if adapter in {"command", "container"} or not _REGISTERED.fullmatch(place):
            yield (
                pointer,
                f"expected openai, anthropic or mcp with construct:<id>, got {adapter} elsewhere",
            )
        if "key_env" in settings:
            yield f"{pointer}/key_env", "expected none: the operator's registry has the key"
        answer = settings.get("answer")
        if isinstance(answer, dict) and answer.get("from") == "regex":
            yield f"{pointer}/answer", "expected text or json, got regex: it is for your machine"


def _budget_local(subject: Subject) -> Iterator[Finding]:
    if subject.from_api and subject.template.execution_policy.budget is not None:
        at = json_pointer("execution_policy", "budget")
        yield at, "expected none: the service starts a run once; a budget is for the command line"


def _budget_priced(subject: Subject) -> Iterator[Finding]:
    budget = subject.template.execution_policy.budget
    if budget is None or not budget.max_cost_usd:
        return
    models = [one for _, _, kind, _, one in _settings(subject) if kind in {"openai", "anthropic"}]
    if not models or not all("prices" in one for one in models):
        yield (
            json_pointer("execution_policy", "budget", "max_cost_usd"),
            "expected prices in adapter_settings of each model: without them no cost is counted",
        )


def _budget_counted(subject: Subject) -> Iterator[Finding]:
    budget = subject.template.execution_policy.budget
    counting = {"openai", "anthropic"} & {kind for _, _, kind, _, _ in _settings(subject)}
    if budget is not None and budget.max_tokens and not counting:
        yield (
            json_pointer("execution_policy", "budget", "max_tokens"),
            "expected a model (openai, anthropic): nothing else counts tokens; use max_calls",
        )


def _version_declared(subject: Subject) -> Iterator[Finding]:
    pins = subject.template.version_pins.constructs
    for _, construct, adapter, place, settings in _settings(subject):
        is_web_tool = adapter == "mcp" and _is_web_address(place)
        if construct not in pins or not (
            adapter in {"openai", "anthropic", "container"} or is_web_tool
        ):
            continue
        try:
            version = pinned_version(adapter, place, settings)
        except CanonicalisationError:
            continue
        if (pin := pins[construct]) != version:
            yield (
                json_pointer("version_pins", "constructs", construct),
                phrase(f"expected the hash of what is asked, {version}, got ", Quoted(pin)),
            )


_WEB_ADDRESS = ("an http(s) URL without query and fragment", _is_web_address, False)
_ARGUMENTS = ("a JSON array of arguments", _is_argument_list, True)
_FORMS: Mapping[str, tuple[str, Callable[[str], bool], bool]] = {
    "http": _WEB_ADDRESS,
    "local": _ARGUMENTS,
    "python": ("module:name", _is_callable_name, True),
    **dict.fromkeys(("openai", "anthropic"), _WEB_ADDRESS),
    "mcp": (
        "an http(s) URL, or a JSON array of arguments",
        lambda endpoint: _is_web_address(endpoint) or _is_argument_list(endpoint),
        False,
    ),
    "command": _ARGUMENTS,
    "container": ("an image by its digest (name@sha256:…)", _is_image, True),
}
"""Adapter type → what its endpoint may be, and whether only on the machine it runs on."""

ENDPOINT_RULES = (
    Rule("endpoint-form", _endpoint_form),
    Rule("python-adapter-local", _python_adapter_local),
    Rule("adapter-settings", _adapter_settings),
    Rule("adapter-registered", _adapter_registered),
    Rule("version-declared", _version_declared),
    Rule("budget-local", _budget_local),
    Rule("budget-priced", _budget_priced),
    Rule("budget-counted", _budget_counted),
    Rule("recorded-adapter-local", _recorded_adapter_local),
    Rule("recorded-adapter-complete", _recorded_adapter_complete),
)


_SEPARATOR = re.compile(r"[/\\]")
_FILE_NAME = re.compile(r"(?!(?:dataset|gold_labels)$)[A-Za-z0-9_-][A-Za-z0-9_.-]*")


def _replay_dataset_hashed(subject: Subject) -> Iterator[Finding]:
    dataset = subject.config.replay_dataset_id
    if dataset and dataset not in subject.template.dataset_hashes:
        yield (
            json_pointer(_CONFIG, "replay_dataset_id"),
            phrase("expected a name with a hash in dataset_hashes, got ", Quoted(dataset)),
        )


def _dataset_path_present(subject: Subject) -> Iterator[Finding]:
    config = subject.template.product_theatre_config
    if not subject.template.replays or config is None:
        return
    for member in ("replay_dataset_id", "replay_data_path"):
        if member not in config.model_fields_set:
            yield json_pointer(_CONFIG), f"expected member {member} in a replay, got none"


def _dataset_path_inside_root(subject: Subject) -> Iterator[Finding]:
    for pointer, path in _paths(subject):
        fault = _path_fault(path, from_api=subject.from_api)
        if fault is not None:
            yield pointer, phrase(f"{fault}, got ", Quoted(path))


def _dataset_names_match_paths(subject: Subject) -> Iterator[Finding]:
    hashed = subject.template.dataset_hashes
    named = named_datasets(subject)
    for name in hashed:
        if name not in named:
            pointer = json_pointer("dataset_hashes", name)
            yield (pointer, phrase("expected a path for the dataset ", Quoted(name), ", got none"))
    seen: set[str] = set()
    for name, pointer in _every_name(subject):
        if name in seen:
            yield (
                pointer,
                phrase("expected one path for the dataset ", Quoted(name), ", got a second one"),
            )
        elif name not in hashed and pointer != json_pointer(_CONFIG, "replay_dataset_id"):
            yield (
                pointer,
                phrase("expected a hash in dataset_hashes for ", Quoted(name), ", got none"),
            )
        seen.add(name)


def _dataset_name_is_file_name(subject: Subject) -> Iterator[Finding]:
    # A further dataset becomes a file of its name in the evidence; those two names are taken.
    for name in subject.config.dataset_paths:
        if name != subject.config.gold_label_dataset_id and not _FILE_NAME.fullmatch(name):
            yield (
                json_pointer(_CONFIG, "dataset_paths", name),
                phrase(
                    "expected a name of letters, digits, _, - and (not first) dots, other than "
                    "dataset and gold_labels; got ",
                    Quoted(name),
                ),
            )


def _gold_unpinned(subject: Subject) -> Iterator[Finding]:
    if subject.template.gold_is_unpinned:
        yield (
            json_pointer(_CONFIG, "gold_label_set"),
            (
                f"expected a hash in dataset_hashes for {GOLD_LABELS}, got none: the labels are "
                "not used, and the tier is capped at UNVERIFIED"
            ),
        )


def _mock_adapter_refused(subject: Subject) -> Iterator[Finding]:
    for pointer in _adapters(subject, "mock") if subject.certificate_run else ():
        yield pointer, "expected an adapter that reaches a real construct, got mock"


def _mock_adapter_rehearsal(subject: Subject) -> Iterator[Finding]:
    for pointer in () if subject.certificate_run else _adapters(subject, "mock"):
        yield pointer, "expected a real construct, got mock: such a run gives no certificate"


def _paths(subject: Subject) -> Iterator[tuple[str, str]]:
    config = subject.config
    yield json_pointer(_CONFIG, "replay_data_path"), config.replay_data_path
    yield json_pointer(_CONFIG, "gold_label_set"), config.gold_label_set or ""
    for name, path in config.dataset_paths.items():
        yield json_pointer(_CONFIG, "dataset_paths", name), path


def _path_fault(path: str, *, from_api: bool) -> str | None:
    if "\0" in path:
        return "expected a path without a NUL character"
    if ".." in _SEPARATOR.split(path):
        return "expected a path that stays inside its dataset root (no ..)"
    # Windows rules see a drive as well as a leading slash of either kind.
    if from_api and PureWindowsPath(path).anchor:
        return "expected a path relative to a dataset root"
    return None


def _every_name(subject: Subject) -> Iterator[tuple[str, str]]:
    """Yield each dataset name that has a path, and where a repetition would be corrected."""
    config = subject.config
    if config.replay_dataset_id:
        yield config.replay_dataset_id, json_pointer(_CONFIG, "replay_dataset_id")
    if config.gold_label_set is not None and not subject.template.gold_is_unpinned:
        is_named = "gold_label_dataset_id" in config.model_fields_set
        member = "gold_label_dataset_id" if is_named else "gold_label_set"
        yield config.gold_label_dataset_id, json_pointer(_CONFIG, member)
    for name in config.dataset_paths:
        yield name, json_pointer(_CONFIG, "dataset_paths", name)


def named_datasets(subject: Subject) -> set[str]:
    """Return the names of the datasets that have a path."""
    return {name for name, _ in _every_name(subject)}


RULES = (
    Rule("replay-dataset-hashed", _replay_dataset_hashed),
    Rule("dataset-path-present", _dataset_path_present),
    Rule("dataset-path-inside-root", _dataset_path_inside_root),
    Rule("dataset-names-match-paths", _dataset_names_match_paths),
    Rule("dataset-name-is-file-name", _dataset_name_is_file_name),
    Rule("gold-unpinned", _gold_unpinned, severity="warning"),
)

CERTIFICATE_RULES = (
    Rule("mock-adapter-refused", _mock_adapter_refused),
    Rule("mock-adapter-rehearsal", _mock_adapter_rehearsal, severity="warning"),
)
