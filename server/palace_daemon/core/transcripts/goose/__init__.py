"""Goose: its database and the older line files."""
