"""The transcript formats, each from its own module: what the registry looks things up in."""

from __future__ import annotations

from palace_daemon.core.transcripts.aider.format import AiderFormat
from palace_daemon.core.transcripts.amp import AmpFormat
from palace_daemon.core.transcripts.antigravity import AntigravityFormat
from palace_daemon.core.transcripts.base import SealedStore, TranscriptFormat
from palace_daemon.core.transcripts.chatgpt.format import ChatGptFormat
from palace_daemon.core.transcripts.claude_ai import ClaudeAiFormat
from palace_daemon.core.transcripts.claude_code.format import ClaudeCodeFormat
from palace_daemon.core.transcripts.cline.messages import ClineMessagesFormat
from palace_daemon.core.transcripts.cline.tasks import TASK_FORMATS
from palace_daemon.core.transcripts.codex.format import CodexFormat
from palace_daemon.core.transcripts.continue_sessions import ContinueFormat
from palace_daemon.core.transcripts.copilot_cli.format import CopilotCliFormat
from palace_daemon.core.transcripts.cursor.database import CursorDatabase
from palace_daemon.core.transcripts.cursor.lines import CursorLinesFormat
from palace_daemon.core.transcripts.cursor.markdown import CursorMarkdownFormat
from palace_daemon.core.transcripts.cursor.store import CursorStore
from palace_daemon.core.transcripts.cursor.text import CursorTextFormat
from palace_daemon.core.transcripts.gemini.format import GeminiDocumentFormat, GeminiLinesFormat
from palace_daemon.core.transcripts.goose.format import GooseDatabase, GooseFormat
from palace_daemon.core.transcripts.iflow.format import IflowFormat
from palace_daemon.core.transcripts.kimi.format import KimiFormat
from palace_daemon.core.transcripts.opencode.database import OPENCODE_DATABASES
from palace_daemon.core.transcripts.opencode.tree import OpencodeTreeFormat
from palace_daemon.core.transcripts.pi.format import PiFormat
from palace_daemon.core.transcripts.plain_text.format import PlainTextFormat
from palace_daemon.core.transcripts.qwen_code.format import QwenCodeFormat
from palace_daemon.core.transcripts.slack.format import SlackFormat
from palace_daemon.core.transcripts.specstory.format import SpecStoryFormat
from palace_daemon.core.transcripts.vscode_chat.format import VsCodeChatExportFormat, VsCodeChatFormat
from palace_daemon.core.transcripts.vscode_chat.log import VsCodeChatLogFormat
from palace_daemon.core.transcripts.windsurf import WindsurfCascade, WindsurfFormat
from palace_daemon.core.transcripts.zed.format import ZedDatabase

FORMATS: tuple[TranscriptFormat, ...] = (
    ClaudeCodeFormat(),
    CodexFormat(),
    CopilotCliFormat(),
    GeminiLinesFormat(),
    GeminiDocumentFormat(),
    CursorLinesFormat(),
    CursorTextFormat(),
    CursorMarkdownFormat(),
    QwenCodeFormat(),
    IflowFormat(),
    KimiFormat(),
    WindsurfFormat(),
    PiFormat(),
    AntigravityFormat(),
    VsCodeChatLogFormat(),
    VsCodeChatFormat(),
    VsCodeChatExportFormat(),
    *TASK_FORMATS,
    ClineMessagesFormat(),
    ContinueFormat(),
    AmpFormat(),
    OpencodeTreeFormat(),
    *OPENCODE_DATABASES,
    GooseDatabase(),
    GooseFormat(),
    ZedDatabase(),
    CursorDatabase(),
    CursorStore(),
    ChatGptFormat(),
    ClaudeAiFormat(),
    SlackFormat(),
    AiderFormat(),
    SpecStoryFormat(),
    PlainTextFormat(),
)
"""In the order in which a file is tried. A new format joins here and nowhere else."""

SEALED: tuple[SealedStore, ...] = (WindsurfCascade(),)
"""Stores that are shown with the reason why they cannot be read."""
