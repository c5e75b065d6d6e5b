"""Every step of the committed programme once more."""
