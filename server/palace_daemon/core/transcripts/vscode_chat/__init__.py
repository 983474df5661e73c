"""VS Code Copilot Chat: session files, the log of changes, exports."""
