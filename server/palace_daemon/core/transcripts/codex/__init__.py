"""Codex: the rollouts of its threads."""
