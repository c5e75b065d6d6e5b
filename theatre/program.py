"""The program `echelon`, which loads for a tenth of a second before it can say anything."""

import signal


def main() -> None:
    """Run the command line; Ctrl-C while it loads ends it without a traceback."""
    # An ignored one stays so: `nohup`, and what runs in the background.
    is_raised = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if is_raised:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from theatre.cli import main as run  # noqa: PLC0415 - what takes the time

    if is_raised:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    run()
