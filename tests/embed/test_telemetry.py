"""What the runtime keeps and tells of the machine: nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import sys
from pathlib import Path
from palace_daemon.embed import minilm
embedder = minilm.load("all-minilm-l6-v2-int8", Path(sys.argv[1]), threads=1)
embedder.embed_query("a question")
embedder.close()
"""


@pytest.mark.model
def test_running_a_model_leaves_nothing_in_the_home_of_its_user(models_dir: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("XDG_", "ORT_"))}
    subprocess.run(
        [sys.executable, "-c", SCRIPT, str(models_dir)],
        env=kept | {"HOME": str(home), "USERPROFILE": str(home)},
        check=True,
        timeout=120,
    )
    assert sorted(home.rglob("*")) == []
