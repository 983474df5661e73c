"""What the extension and the daemon must agree on."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

EXTENSION = Path(__file__).resolve().parents[1] / "client-vscode"


def test_the_extensions_types_are_those_of_the_daemon() -> None:
    script = EXTENSION / "scripts" / "make_protocol.py"
    ran = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
