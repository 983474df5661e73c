"""Conversations that somebody kept as text."""
