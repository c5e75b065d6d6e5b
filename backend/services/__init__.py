"""One function a command. The web framework is not known here."""
