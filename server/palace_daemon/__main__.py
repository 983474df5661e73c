"""``palace-daemon`` and ``python -m palace_daemon``."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line and end the process with its exit code."""
    from palace_daemon.cli.main import run  # noqa: PLC0415 - keeps `import palace_daemon.__main__` free of work

    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
