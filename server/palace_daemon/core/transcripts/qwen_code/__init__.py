"""Qwen Code: chats of its projects."""
