"""Where agents keep their files: paths below the user's home, spelled as the platform spells them."""

from __future__ import annotations

import ntpath
import posixpath
from collections.abc import Mapping


def below_home(environ: Mapping[str, str], home: str, platform: str, *parts: str) -> str:
    """Return a path below the home directory; on Windows ``USERPROFILE`` is the home if it is set."""
    root = (environ.get("USERPROFILE") or home) if platform == "win32" else home
    return below(root, platform, *parts)


def below(root: str, platform: str, *parts: str) -> str:
    """Return a path below ``root``; ``platform`` is a value of ``sys.platform``."""
    return ntpath.join(root, *parts) if platform == "win32" else posixpath.join(root, *parts)
