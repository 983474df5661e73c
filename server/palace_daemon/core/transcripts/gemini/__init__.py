"""Gemini CLI: chats in both forms."""
