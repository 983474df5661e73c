"""The screen of ``browse``: a question, the hits in the daemon's order, and the text of the one that is chosen.

A question is asked once typing rests for a moment. Each has a number, and an answer to one that is not the last any
more is dropped, however late it comes.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from rich.text import Text
from textual import events
from textual.app import App, ComposeResult, SuspendNotSupported
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from palace_daemon.cli import ask, browse, show
from palace_daemon.client import Client
from palace_daemon.errors import PalaceError

DEBOUNCE_S = 0.12
"""How long typing must rest before a question is asked."""
TIMEOUT_S = 20.0
_TITLE_COLUMNS = 200
_HELP = "↑ ↓ choose   Enter open at its line   Tab scroll the text   Esc leave"


def run_outside(command: Sequence[str]) -> None:
    """Run a program that has the terminal to itself."""
    subprocess.run(list(command), check=False)


class Browser(App[None]):
    """See the module."""

    CSS = """
    #question { dock: top; border: none; height: 1; margin: 0 1; }
    #state { dock: bottom; height: 1; padding: 0 1; color: $text-muted; }
    #hits { width: 2fr; border: none; padding: 0; text-wrap: nowrap; text-overflow: ellipsis; }
    #text { width: 3fr; padding: 0 1; border-left: solid $primary; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "quit", "Leave", priority=True),
        Binding("enter", "open", "Open", priority=True),
    ]
    ENABLE_COMMAND_PALETTE = False

    def __init__(
        self,
        data_dir: str | None,
        filters: Mapping[str, Any],
        query: str = "",
        *,
        debounce_s: float = DEBOUNCE_S,
        run_program: Callable[[Sequence[str]], None] = run_outside,
    ) -> None:
        """Take what narrows each question, and the first one."""
        super().__init__()
        self._data_dir = data_dir
        self._narrowed = dict(filters)
        self._first = query
        self._debounce_s = debounce_s
        self._run_program = run_program
        self._asked = 0
        self.hits: list[dict[str, Any]] = []
        """Of the last answer, in its order."""

    def compose(self) -> ComposeResult:
        """Yield the parts of the screen."""
        yield Input(self._first, placeholder="what was said about …", id="question")
        with Horizontal():
            yield OptionList(id="hits")
            with VerticalScroll(id="text"):
                yield Static(id="preview")
        yield Static(_HELP, id="state")

    def on_mount(self) -> None:
        """Begin in the question."""
        self.query_one("#question").focus()

    # ------------------------------------------------------------------------------------------------------ asking

    def on_input_changed(self, event: Input.Changed) -> None:
        """Ask once typing rests."""
        self._asked += 1
        number, text = self._asked, event.value.strip()
        if not text:
            self._show_hits(number, [], _HELP)
            return
        self.set_timer(self._debounce_s, lambda: self._ask(number, text))

    def _ask(self, number: int, text: str) -> None:
        if number == self._asked:
            self.run_worker(lambda: self._answer(number, text), thread=True, group="asking")

    def _answer(self, number: int, text: str) -> None:
        """Ask the daemon; on a thread of its own."""
        try:
            with Client(self._data_dir, timeout_s=TIMEOUT_S).connect_or_start() as client:
                result = client.request("palace/recall", {"query": text, "now": ask.now(), **self._narrowed})
        except PalaceError as exc:
            self.call_from_thread(self._show_hits, number, [], show.one_line(str(exc), _TITLE_COLUMNS))
            return
        totals = result["totals"]
        state = f"{len(result['hits'])} of {totals['inScope']:,} in scope; {result['tookMs']:.0f} ms   {_HELP}"
        self.call_from_thread(self._show_hits, number, result["hits"], state)

    def _show_hits(self, number: int, hits: list[dict[str, Any]], state: str) -> None:
        if number != self._asked:
            return  # a later question is under way, or was answered already
        self.hits = hits
        listed = self.query_one("#hits", OptionList)
        listed.clear_options()
        listed.add_options([Option(_row(hit)) for hit in hits])
        if hits:
            listed.highlighted = 0
        else:
            self.query_one("#preview", Static).update("")
        self.query_one("#state", Static).update(Text(show.clean(state)))

    # ---------------------------------------------------------------------------------------------------- choosing

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        """Show the text of the chosen hit."""
        if event.option_index < len(self.hits):
            self.query_one("#preview", Static).update(_preview(self.hits[event.option_index]))
            self.query_one("#text").scroll_home(animate=False)

    def on_key(self, event: events.Key) -> None:
        """Let up and down choose while the question has the keys."""
        listed = self.query_one("#hits", OptionList)
        if event.key in {"up", "down"} and isinstance(self.focused, Input):
            (listed.action_cursor_up if event.key == "up" else listed.action_cursor_down)()
            event.stop()

    def action_open(self) -> None:
        """Open the transcript of the chosen hit at its line."""
        chosen = self.query_one("#hits", OptionList).highlighted
        if chosen is None or chosen >= len(self.hits):
            return
        hit = self.hits[chosen]
        if not os.path.isfile(hit["path"]):
            where = show.place(hit["path"], hit["lineStart"], hit["lineEnd"])
            self.notify(f"{where} is no file that can be opened", severity="warning", markup=False)
            return
        try:
            command = browse.command_for(hit["path"], hit["lineStart"])
        except PalaceError as exc:
            self.notify(str(exc), severity="error", markup=False)
            return
        try:
            with self.suspend():
                self._run_program(command)
        except SuspendNotSupported:
            self._run_program(command)
        except OSError as exc:
            self.notify(f"{command[0]}: {exc.strerror}", severity="error", markup=False)


def _row(hit: Mapping[str, Any]) -> Text:
    """Return a hit in two lines."""
    project = show.one_line(os.path.basename(hit["project"]) or "no project", 24)
    title = show.one_line(hit["sessionTitle"] or hit["text"], _TITLE_COLUMNS)
    head = Text(f"{show.local_time(hit['startedAt'])}  {project}  {hit['agent']}", style="dim", no_wrap=True)
    return Text.assemble(head, "\n", Text(title, no_wrap=True))


def _preview(hit: Mapping[str, Any]) -> Text:
    """Return a hit's text with the words of the question marked; whatever it holds, nothing of it is markup."""
    where = show.place(hit["path"], hit["lineStart"], hit["lineEnd"])
    text = Text(show.clean(hit["text"]))
    text.highlight_words([term for term in hit["matchedTerms"] if term], style="bold reverse", case_sensitive=False)
    title = show.one_line(hit["sessionTitle"] or "untitled", _TITLE_COLUMNS)
    return Text.assemble(Text(title, style="bold"), "\n", Text(where, style="dim"), "\n\n", text)
