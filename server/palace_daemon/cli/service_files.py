"""What the service manager of each platform is told, as text; pure.

None of it holds a secret: a command line, and the variables that lead to directories.
"""

from __future__ import annotations

import os
import plistlib
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape

from palace_daemon.errors import ConfigError

UNIT = "palace-daemon.service"
LABEL = "dev.palace.palace-daemon"
TASK = "Palace"
CARRIED = (
    *("PALACE_CONFIG", "PALACE_MODELS", "CLAUDE_CONFIG_DIR", "CODEX_HOME"),
    *("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME"),
)
"""Variables that lead to directories: the service gets them as they are where it is installed."""
RESTART_S = 5
ENDS = (4, 5)
"""Exit codes after which a new start is no help: another daemon has the place, the data directory was removed."""
_NICE = 5
_NOT_IN_PROGRAM = set("\"'\\$")
"""What systemd does not take in the first word of a command line, in whatever quotation."""
_WINDOWS_PRIORITY = 8
"""Below normal."""

Command = tuple[str, ...]


class Service(NamedTuple):
    """One service manager's file, and the commands around it."""

    manager: str
    path: Path
    content: bytes
    on_install: tuple[Command, ...]
    """Run in order after the file is written; the last one starts the daemon."""
    on_remove: tuple[Command, ...]
    """Run before the file is removed."""
    after_remove: tuple[Command, ...]
    on_status: Command
    """Exits with 0 where the manager runs the daemon."""
    is_run_here: bool = True
    """Whether this program runs those commands; where not, it only names them."""
    links: tuple[Path, ...] = ()
    """What the manager makes, and a removal without it leaves behind."""

    @property
    def text(self) -> str:
        """The content, for people."""
        return self.content.decode("utf-16" if self.manager == "schtasks" else "utf-8")


def service_of(platform: str, command: Sequence[str], environ: Mapping[str, str], home: Path) -> Service:
    """Return the service of a platform (``sys.platform``).

    Args:
        platform: ``linux``, ``darwin`` or ``win32``.
        command: What it runs; its first word is an absolute path.
        environ: Holds the variables that lead to directories.
        home: The user's home directory.

    Raises:
        ConfigError: A word cannot be written into such a file, or the platform has no service manager that is known.
    """
    variables = {name: environ[name] for name in CARRIED if environ.get(name)}
    for word in (*command, *variables.values()):
        if any(ord(character) < 32 or ord(character) == 127 for character in word):
            raise ConfigError(f"a service cannot be told of {word!r}", hint="choose a path without control characters")
    if platform == "darwin":
        return _launchd(command, variables, home)
    if platform == "win32":
        return _windows(command, Path(environ.get("APPDATA") or home / "AppData" / "Roaming"))
    if platform == "linux":
        chosen = environ.get("XDG_CONFIG_HOME", "")
        return _systemd(command, variables, Path(chosen) if chosen.startswith("/") else home / ".config")
    raise ConfigError(f"no service manager is known for {platform}", hint="run `palace-daemon serve` from your own")


def _systemd(command: Sequence[str], variables: Mapping[str, str], config_home: Path) -> Service:
    folder = config_home / "systemd" / "user"
    if set(command[0]) & _NOT_IN_PROGRAM:
        command = ("/usr/bin/env", *command)
    lines = [
        "[Unit]",
        "Description=Palace, a local memory for coding agents",
        "# Five starts in three minutes are enough to know that it does not work.",
        "StartLimitIntervalSec=180",
        "StartLimitBurst=5",
        "",
        "[Service]",
        "Type=exec",
        f"ExecStart={' '.join(_unit_word(word.replace('$', '$$')) for word in command)}",
        *(f"Environment={_unit_word(f'{name}={value}')}" for name, value in variables.items()),
        "Restart=on-failure",
        f"RestartSec={RESTART_S}",
        "# 4: another daemon serves the data directory. 5: it was removed, and is not to be filled again.",
        f"RestartPreventExitStatus={' '.join(map(str, ENDS))}",
        "TimeoutStopSec=5",
        f"Nice={_NICE}",
        "IOSchedulingClass=idle",
        "UMask=0077",
        "",
        "[Install]",
        "WantedBy=default.target",
        "",
    ]
    control = ("systemctl", "--user")
    return Service(
        manager="systemd",
        path=folder / UNIT,
        content=os.fsencode("\n".join(lines)),
        on_install=((*control, "daemon-reload"), (*control, "enable", UNIT), (*control, "restart", UNIT)),
        on_remove=((*control, "disable", "--now", UNIT),),
        after_remove=((*control, "daemon-reload"),),
        on_status=(*control, "is-active", "--quiet", UNIT),
        links=(folder / "default.target.wants" / UNIT,),
    )


def _unit_word(word: str) -> str:
    """Return a word as a unit file takes it, whatever stands in it."""
    quoted = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{quoted}"'


def _launchd(command: Sequence[str], variables: Mapping[str, str], home: Path) -> Service:
    path = home / "Library" / "LaunchAgents" / f"{LABEL}.plist"
    told: dict[str, object] = {
        "Label": LABEL,
        "ProgramArguments": list(command),
        "RunAtLoad": True,
        # Not after every exit but 0: it ends by itself where its data directory was removed, or another has the place.
        "KeepAlive": {"Crashed": True},
        "ThrottleInterval": RESTART_S,
        "ProcessType": "Background",
        "LowPriorityIO": True,
        "Nice": _NICE,
        "Umask": 0o077,
    }
    if variables:
        told["EnvironmentVariables"] = dict(variables)
    domain = ("launchctl",)
    return Service(
        manager="launchd",
        path=path,
        content=plistlib.dumps(told, sort_keys=False),
        on_install=((*domain, "load", "-w", str(path)),),
        on_remove=((*domain, "unload", "-w", str(path)),),
        after_remove=(),
        on_status=(*domain, "list", LABEL),
    )


def _windows(command: Sequence[str], roaming: Path) -> Service:
    path = roaming / "palace" / "palace-task.xml"
    program, *arguments = command
    text = f"""<?xml version="1.0" encoding="UTF-16"?>
<Task version="1.2" xmlns="http://schemas.microsoft.com/windows/2004/02/mit/task">
  <RegistrationInfo><Description>Palace, a local memory for coding agents</Description></RegistrationInfo>
  <Triggers><LogonTrigger><Enabled>true</Enabled></LogonTrigger></Triggers>
  <Principals>
    <Principal id="Author"><LogonType>InteractiveToken</LogonType><RunLevel>LeastPrivilege</RunLevel></Principal>
  </Principals>
  <Settings>
    <MultipleInstancesPolicy>IgnoreNew</MultipleInstancesPolicy>
    <DisallowStartIfOnBatteries>false</DisallowStartIfOnBatteries>
    <StopIfGoingOnBatteries>false</StopIfGoingOnBatteries>
    <ExecutionTimeLimit>PT0S</ExecutionTimeLimit>
    <Priority>{_WINDOWS_PRIORITY}</Priority>
  </Settings>
  <Actions Context="Author">
    <Exec>
      <Command>{escape(program)}</Command>
      <Arguments>{escape(subprocess.list2cmdline(arguments))}</Arguments>
    </Exec>
  </Actions>
</Task>
"""
    return Service(
        manager="schtasks",
        path=path,
        content=text.replace("\n", "\r\n").encode("utf-16"),
        on_install=(("schtasks", "/Create", "/F", "/TN", TASK, "/XML", str(path)), ("schtasks", "/Run", "/TN", TASK)),
        on_remove=(("schtasks", "/Delete", "/F", "/TN", TASK),),
        after_remove=(),
        on_status=("schtasks", "/Query", "/TN", TASK),
        is_run_here=False,
    )
