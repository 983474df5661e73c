"""Zed: the threads of its assistant."""
