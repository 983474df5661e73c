"""Slack: the day files of an export."""
