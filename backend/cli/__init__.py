"""The service's part of the command line. Importing this imports none of the service."""

COMMANDS = {
    "admin": (
        "backend.cli.admin_group:admin",
        "Back up, restore, re-verify; users, invites and owners.",
    ),
    "key": ("backend.cli.key_group:key", "Make, list and revoke keys for tools."),
    "openapi": (
        "backend.cli.serve_command:openapi",
        "Print the description of the HTTP interface.",
    ),
    "serve": ("backend.cli.serve_command:serve", "Serve the HTTP interface."),
    "worker": ("backend.cli.serve_command:worker", "Run theatres that the service has queued."),
}
"""Command → where it lives, and the line that `echelon --help` shows (`theatre.cli`)."""
