"""`echelon theatre …`: validate, hash, commit, run and cancel theatres, and look into them."""

from __future__ import annotations

from theatre.cli.lazy_group import LazyGroup

COMMANDS = {
    "cancel": ("theatre.cli.show_command:cancel", "End a theatre that is not to go on, as void."),
    "commit": ("theatre.cli.run_command:commit", "Make a theatre of a template and commit it."),
    "episode": (
        "theatre.cli.episode_command:episode",
        "Show one episode, and why it scored so.",
    ),
    "episodes": (
        "theatre.cli.episodes_command:episodes",
        "List episodes: failed, wrong, with a text.",
    ),
    "export": ("theatre.cli.export_command:export", "Export a certified theatre, and archive it."),
    "hash": (
        "theatre.cli.hash_command:hash_",
        "Print the hash that a template commits to.",
    ),
    "hitl": (
        "theatre.cli.hitl_command:hitl",
        "Show what people score, and record scores.",
    ),
    "list": ("theatre.cli.list_command:list_", "List the theatres here."),
    "run": ("theatre.cli.run_command:run", "Run a theatre to its certificate."),
    "show": ("theatre.cli.show_command:show", "Show the state of a theatre and its certificate."),
    "validate": (
        "theatre.cli.validate_command:validate",
        "Check a template against every rule.",
    ),
}

theatre = LazyGroup(
    "theatre",
    commands_by_name=COMMANDS,
    help="Validate, commit, run and show theatres.",
)
