"""Claude Code: the transcripts of its projects, sub-agents included."""
