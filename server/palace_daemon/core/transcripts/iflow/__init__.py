"""iFlow: lines like those of Claude Code."""
