"""`echelon init`: a folder in which `echelon run` works at once."""

import json
import os
import re
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import click

from theatre.cli.exits import echo, is_terminal
from theatre.drafts.compilation import default_answer, default_prompt, nearest
from theatre.drafts.errors import FolderTakenError
from theatre.drafts.tables import GroundTruth, Table, ground_truth, read_table
from theatre.engine.schema_registry import resource_root
from theatre.engine.templates import construct_id_of, theatre_id_of

DRAFT, DATA = "echelon.yaml", "ground_truth.jsonl"
README, IGNORED = "README.md", ".gitignore"
WORKFLOW = ".github/workflows/echelon.yml"
DEFAULT_RECIPE = "classification"
_OWN = "own"
_SHOWN = 100
_MISSING = {
    "judged_text": "A model judges here. `echelon run` needs `ANTHROPIC_API_KEY` and the packages "
    'of `pip install "echelon-theatre[models]"`. Without a key nothing is scored, and no '
    "certificate comes of it; `echelon validate echelon.yaml` works without one."
}
"""What a recipe needs that `init` cannot write."""

_OF_OBJECTS, _OF_LISTS = "measure: field_match", "measure: set_f1"
_ENDING = {"python": "py", "node": "mjs"}
_KINDS = ("python", "node", "http", "command", "openai")
_VERSION = re.compile("[0-9a-f]{7,64}")
_FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
_NEEDED: Mapping[str, tuple[str, ...]] = {
    "http": ("url", "id", "version"),
    "command": ("command",),
    "openai": ("url", "model"),
}
"""Kind of construct → what must be said of it, too."""

_QUESTIONS = {
    "url": "Its URL (of a model: the base URL, such as http://127.0.0.1:8080/v1)",
    "id": "Its construct_id, as its answers report it",
    "version": "The version that its answers report as construct_version (7 to 64 hex digits, such "
    "as its commit)",
    "command": "Its command line, such as: python3 answer.py",
    "model": "The name of the model",
}


class Wishes(NamedTuple):
    """What was asked for, by flags or in answers to questions."""

    recipe: str
    data: Path | None
    answers: tuple[str, ...]
    inputs: tuple[str, ...]
    construct: str
    said: Mapping[str, str | None]
    """What is said of the construct, by the names of the flags."""
    key_env: str | None
    project: str
    """The name of the folder: theatres of two projects are different ones."""


def recipes() -> list[str]:
    """Return the names of the recipes that ship."""
    folder = resource_root() / "fixtures" / "recipes"
    return sorted(one.name for one in folder.iterdir() if one.is_dir() and one.name != _OWN)


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False), default=Path())
@click.option(
    "--recipe",
    metavar="NAME",
    help=f"What is measured, as an example: {', '.join(recipes())}.  [default: {DEFAULT_RECIPE}]",
    shell_complete=lambda _, __, begun: [name for name in recipes() if name.startswith(begun)],
)
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    help="CSV, JSON Lines or a folder of files; without it 20 sample rows of the recipe.",
)
@click.option("--answer", "answers", multiple=True, help="The column with the right answer.")
@click.option("--input", "inputs", multiple=True, help="A column that is asked; else all others.")
@click.option(
    "--construct",
    metavar="KIND",
    help="What is asked: python, node, http (a service), command (any program), openai (a model), "
    "or MODULE:NAME, a function of yours.  [default: python]",
)
@click.option("--url", help="With http and openai: where the service is.")
@click.option("--id", "construct_id", help="With http: the construct_id that the service reports.")
@click.option("--version", metavar="HEX", help="With http: the version that the service reports.")
@click.option("--command", help="With command: a program that reads stdin and prints the answer.")
@click.option("--model", help="With openai: the name of the model.")
@click.option("--key-env", metavar="VARIABLE", help="With openai: where the key is, …_API_KEY.")
@click.option("--yes", is_flag=True, help="Ask nothing; take the defaults.")
@click.option("--force", is_flag=True, help="Overwrite files that are there.")
def init(  # noqa: PLR0913  # one for each flag
    folder: Path,
    *,
    recipe: str | None,
    data: Path | None,
    answers: tuple[str, ...],
    inputs: tuple[str, ...],
    construct: str | None,
    url: str | None,
    construct_id: str | None,
    version: str | None,
    command: str | None,
    model: str | None,
    key_env: str | None,
    yes: bool,
    force: bool,
) -> None:
    """Write a construct, a draft, data, a README and a CI job into FOLDER.

    On a terminal it asks for what is not given. Nothing that is there is overwritten without
    --force. `echelon run` works at once after it.
    """
    asks = not yes and is_terminal(sys.stdin)
    recipe = _known_recipe(recipe or _ask_recipe(asks=asks))
    if asks and data is None and not answers:
        asked = "Your data (CSV, JSONL, folder); empty for samples"
        data = click.prompt(asked, default="", value_proc=_typed_path)
    table = None if data is None else read_table(data)
    if asks and table is not None and not answers and not table.answers:
        columns = click.Choice(table.columns)
        answers = (click.prompt("Which column is the right answer", type=columns),)
    construct = _known_construct(construct or _ask_construct(asks=asks))
    said = {"url": url, "id": construct_id, "version": version, "command": command, "model": model}
    if asks:
        said |= {name: said[name] or _ask_of(name) for name in _NEEDED.get(construct, ())}
    wishes = Wishes(
        recipe=recipe,
        data=data,
        answers=answers,
        inputs=inputs,
        construct=construct,
        said=said,
        key_env=key_env,
        project=folder.resolve().name,
    )
    _refuse_contradictions(wishes)
    truth = None if table is None else _truth(table, wishes)
    written = _write(folder, project_files(wishes, truth), force=force)
    if truth is not None:
        _echo_reading(data, truth)
    for name in written:
        echo(f"wrote       {folder / name}")
    samples = [name for name in written if name.endswith(".py") and name != "solution.py"]
    if truth is not None and samples:
        echo(f"edit        {', '.join(samples)}: they read and answer the sample rows, not yours")
    step = "" if folder == Path() else f"cd {shlex.quote(str(folder))} && "
    echo(f"next        {step}echelon run")
    if recipe in _MISSING:
        echo(f"missing     {_MISSING[recipe].replace('`', '')}")


def _typed_path(text: str) -> Path | None:
    """Return a path as people type and drop it: from `~`, in quotation marks; None for none."""
    written = text.strip().strip("'\"")
    path = Path(os.path.expanduser(written))  # noqa: PTH111  # Path's own raises without a home
    if not path.exists():
        raise click.UsageError(f"expected a file or a folder, got none at {path}")
    return path if written else None


def _ask_recipe(*, asks: bool) -> str:
    if not asks:
        return DEFAULT_RECIPE
    chosen: str = click.prompt(
        "What is measured", type=click.Choice(recipes()), default=DEFAULT_RECIPE
    )
    return chosen


def _ask_construct(*, asks: bool) -> str:
    if not asks:
        return "python"
    chosen: str = click.prompt(
        f"What is asked ({', '.join(_KINDS)}, or MODULE:NAME of your function)",
        default="python",
        value_proc=_known_construct,
    )
    return chosen


def _ask_of(name: str) -> str:
    read = _known_version if name == "version" else None
    answer: str = click.prompt(_QUESTIONS[name], value_proc=read)
    return answer


def _known_version(written: str) -> str:
    if _VERSION.fullmatch(written):
        return written
    raise click.UsageError(
        f"expected --version as 7 to 64 hex digits in lower case, got {written!r:.80}: what a "
        "service reports cannot be computed here, and another one in an answer is an error of "
        "that episode"
    )


def _known_construct(written: str) -> str:
    """Return a kind of construct, or `module:name`; UsageError for anything else."""
    written = written.strip()
    if written in _KINDS or _FUNCTION.fullmatch(written):
        return written
    raise click.UsageError(
        f"expected --construct as {', '.join(_KINDS)}, or MODULE:NAME of a function, got "
        f"{written!r}{nearest(written, list(_KINDS))}"
    )


def _known_recipe(name: str) -> str:
    known = recipes()
    if name not in known:
        raise click.UsageError(
            f"expected a recipe, got {name!r}{nearest(name, known)}; there are {', '.join(known)}"
        )
    return name


def _refuse_contradictions(wishes: Wishes) -> None:
    """Refuse flags that do not go together, and a construct of which too little is said."""
    said = wishes.said
    for name in _NEEDED.get(wishes.construct, ()):
        if not said[name]:
            raise click.UsageError(
                f"expected --{name} with --construct {wishes.construct}, got none: "
                f"{_QUESTIONS[name][0].lower()}{_QUESTIONS[name][1:]}"
            )
    if wishes.construct == "http":
        _known_version(said["version"] or "")
    try:
        shlex.split(said["command"] or "")
    except ValueError as error:
        raise click.UsageError(
            f"expected --command as a shell reads it, got {said['command']!r:.80}: {error}"
        ) from error
    if wishes.data is None and (wishes.answers or wishes.inputs):
        raise click.UsageError(
            "expected --data with --answer and --input, got none: they name columns of it"
        )


def _truth(table: Table, wishes: Wishes) -> GroundTruth:
    return ground_truth(table, answers=wishes.answers, inputs=wishes.inputs)


def _echo_reading(data: Path | None, truth: GroundTruth) -> None:
    """Show as what rows were read: a number, a text and an id look alike in a table."""
    first = json.loads(truth.lines.partition(b"\n")[0])
    rows = "row" if truth.count == 1 else "rows"
    echo(f"read        {data}: {truth.count} {rows}, the first {first['episode_id']}")
    answer = {name: first["expected_output"].get(name) for name in truth.answers}
    for head, shown in (("asked", first["input_data"]), ("answer", answer)):
        text = json.dumps(shown, ensure_ascii=False)
        echo(f"  {head:<10}{text if len(text) <= _SHOWN else text[: _SHOWN - 1] + '…'}")


# The files of a new folder.


def project_files(wishes: Wishes, truth: GroundTruth | None) -> dict[str, str]:
    """Return path → text of everything that `init` writes; `truth` None takes the samples."""
    recipe = _texts(wishes.recipe)
    shown = truth or ground_truth(read_table(_recipe_folder(wishes.recipe) / DATA))
    files = {DATA: recipe[DATA]} if truth is None else {DATA: truth.lines.decode()}
    sources = {name: text for name, text in recipe.items() if name.endswith(".py")}
    keeps = truth is None or len(sources) > 1 or wishes.recipe in _MISSING
    if wishes.construct == "python" and keeps:
        # A chain is two constructs in a row, and a judge is answered with claims: with other data
        # they are still the ones to edit.
        files |= sources
    elif wishes.construct in _ENDING:
        name = f"solution.{_ENDING[wishes.construct]}"
        files[name] = _stub(name, shown)
    files[DRAFT] = _draft(recipe[DRAFT], wishes, truth, shown)
    own = _texts(_OWN)
    code = [name for name in files if name.endswith((".py", ".mjs"))]
    files[README] = _filled(
        own["README.md"],
        {
            "NAME": _title(wishes, truth),
            "ROWS": str(files[DATA].count("\n")),
            "FILES": "".join(f"\n| `{name}` | the construct |" for name in code),
            "MORE": f"\n{_MISSING[wishes.recipe]}\n" if wishes.recipe in _MISSING else "",
        },
    )
    files[WORKFLOW] = (resource_root() / "docs" / "echelon-ci.yml").read_text(encoding="utf-8")
    # Runs lie there, and their coins.
    files[IGNORED] = ".echelon/\n"
    return files


def _recipe_folder(name: str) -> Path:
    return resource_root() / "fixtures" / "recipes" / name


def _texts(folder: str) -> dict[str, str]:
    return {
        path.name: path.read_text(encoding="utf-8")
        for path in sorted(_recipe_folder(folder).iterdir())
        if path.is_file()
    }


def _stub(name: str, truth: GroundTruth) -> str:
    """Return a construct that always gives the most frequent answer."""
    is_python = name.endswith(".py")
    answer = repr(truth.frequent) if is_python else json.dumps(truth.frequent, ensure_ascii=False)
    return _filled(_texts(_OWN)[name], {"ANSWER": answer})


def _filled(text: str, values: Mapping[str, str]) -> str:
    return re.sub(r'"?@([A-Z]+)@"?', lambda found: values[found[1]], text)


def _draft(text: str, wishes: Wishes, truth: GroundTruth | None, shown: GroundTruth) -> str:
    """Return the draft of a recipe for another project, construct or other data.

    `shown` is what is asked and answered, of the recipe's own rows where `truth` is None.
    """
    construct = _construct_lines(wishes, shown)
    if construct is not None:
        text = re.sub(r"(?m)^construct: .*$|^chain:(?:\n  - .*)+", "construct: @", text)
    own = construct_id_of(wishes.project)
    entry = f'{{id: {_word(own)}, adapter: python, endpoint: "solution:answer"}}'
    text = text.replace("construct: solution:answer", f"construct: {entry}")
    text = text.replace("{id: calculator,", f"{{id: {own}_calculator,")
    text = _with_data(text, wishes, truth)
    named = f"{text.rstrip()}\nid: {theatre_id_of(wishes.project)}\n"
    return named if construct is None else named.replace("construct: @", construct)


def _with_data(text: str, wishes: Wishes, truth: GroundTruth | None) -> str:
    """Return the draft of a recipe with what the data have as answers.

    Raises UsageError for data of which the recipe's scorer can make nothing.
    """
    if truth is None:
        return text
    # Comments and name are about the recipe's rows, and the name would stand on the certificate.
    members = {one.partition(":")[0]: one for one in re.findall(r"(?m)^\w+:.*(?:\n .*)*", text)}
    members.pop("name")
    _refuse_unfit(members.get("measure", ""), wishes, truth)
    is_own = set(truth.answers) != set(re.findall(r"\banswer: (\w+)", text))
    if is_own and wishes.recipe not in _MISSING:
        measure = members.pop("measure", "measure: exact_match")
        members = {name: members[name] for name in members if name not in {"answer", "measures"}}
        if len(truth.answers) > 1 or measure == _OF_OBJECTS:
            members["measure"] = _OF_OBJECTS
        else:
            members |= {"answer": f"answer: {_word(truth.answers[0])}", "measure": measure}
    return "\n".join([*members.values(), f"name: {_json(_title(wishes, truth))}", ""])


def _refuse_unfit(measure: str, wishes: Wishes, truth: GroundTruth) -> None:
    """Refuse texts where lists are compared, and rows without what a model judges by."""
    asked = json.loads(truth.lines.partition(b"\n")[0])["input_data"]
    if wishes.recipe in _MISSING and not isinstance(asked.get("record"), dict):
        raise click.UsageError(
            f"expected rows with a record (title, description, diff_content) with --recipe "
            f"{wishes.recipe}, got {', '.join(asked) or 'none'}: the model judges claims by it. "
            "Write such rows as JSON Lines, or take another recipe"
        )
    first = truth.frequent.get(truth.answers[0])
    if measure == _OF_LISTS and len(truth.answers) == 1 and not isinstance(first, list):
        raise click.UsageError(
            f"expected a list in {truth.answers[0]} with --recipe {wishes.recipe}, got "
            f"{_json(first)[:_SHOWN]}: write rows as JSON Lines, with a list in each, or take "
            f"another recipe, such as {DEFAULT_RECIPE}"
        )


def _title(wishes: Wishes, truth: GroundTruth | None) -> str:
    if truth is None or wishes.data is None:
        return wishes.recipe.replace("_", " ").capitalize()
    return f"{' and '.join(truth.answers)} of {wishes.data.stem}".capitalize()[:100]


def _construct_lines(wishes: Wishes, truth: GroundTruth) -> str | None:
    asked = default_prompt(json.loads(truth.lines.partition(b"\n")[0])["input_data"])
    read = default_answer(truth.answers, truth.frequent)
    match wishes.construct:
        case "python":
            return None
        case "node":
            own = _word(construct_id_of(wishes.project))
            return f"construct: {{id: {own}, adapter: local, endpoint: [node, solution.mjs]}}"
        case "command":
            argv = shlex.split(wishes.said["command"] or "")
            return _entry("command", argv, {"prompt": asked, "answer": read})
        case "openai":
            key = {} if wishes.key_env is None else {"key_env": wishes.key_env}
            prompt = f"{_instruction(truth)}\n\n{asked}"
            model = {
                "model": wishes.said["model"],
                "prompt": prompt,
                "parameters": {"temperature": 0},
            }
            return _entry("openai", wishes.said["url"], {**model, "answer": read, **key})
        case "http":
            members = {"endpoint": "url", "id": "id", "version": "version"}
            lines = (f"  {name}: {_json(wishes.said[of])}" for name, of in members.items())
            return "\n".join(("construct:", "  adapter: http", *lines))
        case function:
            return f"construct: {function}"


def _entry(adapter: str, place: object, settings: Mapping[str, object]) -> str:
    """Return the lines of a construct without a wrapper, one for each setting: JSON is YAML."""
    lines = (f"    {name}: {_json(value)}" for name, value in settings.items())
    head = ("construct:", f"  adapter: {adapter}", f"  endpoint: {_json(place)}", "  settings:")
    return "\n".join((*head, *lines))


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _word(name: str) -> str:
    """Return a name as YAML reads it back: 1.0, null and `a: b` are other things without marks."""
    is_plain = re.fullmatch(r"[^\W\d]\w*", name) and name not in {"null", "true", "false"}
    return name if is_plain else _json(name)


def _instruction(truth: GroundTruth) -> str:
    if len(truth.answers) == 1:
        return f"Give the {truth.answers[0]} of this input. Answer with nothing else."
    return f"Answer with one JSON object that has the members {', '.join(truth.answers)}."


def _write(folder: Path, files: Mapping[str, str], *, force: bool) -> list[str]:
    """Write files; FolderTakenError, before the first one, where one of them is there.

    A project has a README and a .gitignore of its own: the one stays, the other gets a line.
    """
    there = [name for name in files if (folder / name).exists()]
    taken = [name for name in there if name not in {IGNORED, README}]
    if taken and not force:
        raise FolderTakenError(
            f"expected none of these files in {folder.resolve()}, got {', '.join(taken)}: choose "
            "another folder, or overwrite them with --force"
        )
    written = []
    for name, text in files.items():
        path = folder / name
        if name == README and name in there and not force:
            continue
        if name == IGNORED and name in there:
            if text.strip().encode() not in path.read_bytes().split():
                with path.open("a", encoding="utf-8") as handle:
                    handle.write(f"\n{text}")
                written.append(name)
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        written.append(name)
    return written
