"""Every score once more: episodes, lines, means and the results hash."""
