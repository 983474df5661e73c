"""Aider: the chat history that it keeps in a repository."""
