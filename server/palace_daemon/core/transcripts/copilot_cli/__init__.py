"""GitHub Copilot CLI: the events of its sessions."""
