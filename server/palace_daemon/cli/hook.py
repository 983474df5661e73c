"""``hook``: what an agent runs when a session starts or a prompt is sent.

Whatever happens it prints JSON and ends with 0: some agents take exit code 2 for an order to drop the prompt.
"""

from __future__ import annotations

import argparse
import io
import os
import queue
import sys
import threading
import time

from palace_daemon.cli import options

BUDGET_S = 0.25
"""From the start of the process to the answer; the end of the process takes the rest of 0.3 s."""
_LEAST_S = 0.03
"""Left to try it where the machine was so busy that starting took almost all."""
_BLOCK_BYTES = 1 << 16
_INPUT_BYTES_MAX = 8 * 1024 * 1024
"""More is no prompt, and reading it would hold up the answer."""


def register(commands: options.Commands) -> None:
    """Declare the command."""
    parser = options.add_command(
        commands,
        "hook",
        "answer an agent's hook with history of its project",
        hook,
        examples="palace-daemon hook session-start --agent claude\n"
        "palace-daemon hook prompt-submit --agent codex --all-projects",
        detail="Reads the agent's JSON from standard\n"
        "input and prints what the agent expects, {} where nothing surely fits, in 0.3 s at most. Ends with 0 in\n"
        "any case. `palace-daemon connect AGENT` sets it up.",
    )
    parser.add_argument("event", metavar="EVENT", help="session-start or prompt-submit")
    parser.add_argument("--agent", default="", metavar="AGENT", help="claude, codex or cursor")
    parser.add_argument("--all-projects", action="store_true", help="not only the project that the agent works in")
    parser.add_argument("--budget-ms", type=options.positive, default=int(BUDGET_S * 1000), help=argparse.SUPPRESS)


def hook(arguments: argparse.Namespace) -> int:
    """Print an answer, whatever happens."""
    deadline = time.monotonic() + max(_LEAST_S, arguments.budget_ms / 1000 - _age_s())
    answers: queue.SimpleQueue[str] = queue.SimpleQueue()
    # A thread of its own, so that nothing can hold up the answer: not an agent that leaves standard input open, not
    # a file system that hangs, not the daemon.
    threading.Thread(target=_work, args=(arguments, deadline, answers), name="palace-hook", daemon=True).start()
    try:
        text = answers.get(timeout=max(0.0, deadline - time.monotonic()))
    except queue.Empty:
        text = "{}"
    _say(text)
    return options.EXIT_OK


def refuse() -> int:
    """Answer a command line that argparse has refused, as to any hook that cannot be answered."""
    _say("{}")
    return options.EXIT_OK


def _say(text: str) -> None:
    """Print it, or nothing where standard output takes nothing."""
    try:
        print(text, flush=True)
    except (OSError, ValueError):
        from palace_daemon.cli import main  # noqa: PLC0415 - it imports this module

        main.drop_stdout()


def _age_s() -> float:
    """Return for how long this process has run; where the system does not say, how long it has computed."""
    try:
        with open("/proc/self/stat", "rb") as file:
            ticks = int(file.read().rpartition(b")")[2].split()[19])
        return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError, AttributeError):
        return time.process_time()


def _work(arguments: argparse.Namespace, deadline: float, answers: queue.SimpleQueue[str]) -> None:
    text = "{}"
    try:
        from palace_daemon.agents import hook as work  # noqa: PLC0415

        text = work.answer(
            _input(),
            event=arguments.event,
            agent=arguments.agent,
            is_everywhere=arguments.all_projects,
            data_dir=arguments.data_dir,
            deadline=deadline,
        )
    except Exception as exc:  # noqa: BLE001 - a hook must not disturb the agent, whatever is wrong here
        if os.environ.get("PALACE_HOOK_DEBUG"):
            print(f"palace-daemon hook: {type(exc).__name__}: {exc}", file=sys.stderr)
    finally:
        answers.put(text)


def _input() -> bytes:
    """Return standard input, read without its buffer: a thread that holds that would hold up the end of the process.

    Raises:
        ValueError: It is longer than any prompt.
    """
    try:
        descriptor = sys.stdin.fileno()
    except io.UnsupportedOperation:
        return sys.stdin.buffer.read()
    data = bytearray()
    while part := os.read(descriptor, _BLOCK_BYTES):
        data += part
        if len(data) > _INPUT_BYTES_MAX:
            raise ValueError("more than an agent sends")
    return bytes(data)
