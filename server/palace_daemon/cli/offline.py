"""Answers requests from the store without a daemon, through the code that the daemon answers with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from palace_daemon import config
from palace_daemon.rpc import convert, methods, wire
from palace_daemon.service import build
from palace_daemon.service.api import Palace


def ask(data_dir: str | None, method: str, params: Mapping[str, Any]) -> Any:
    """Return the result of ``method`` as JSON values.

    Args:
        data_dir: As ``--data-dir`` gives it.
        method: One of ``palace/recall``, ``palace/get``, ``palace/sessions``, ``palace/projects``, ``palace/sources``,
            ``palace/models``.
        params: Its parameters.

    Raises:
        StoreError: There is no store, or it cannot be read.
        PalaceError: As the method answers.
    """
    settings, _ = config.load(data_dir=data_dir)
    checked = convert.params_from_wire(dict(params), wire.METHODS[method].params)
    palace = build.open_read_only(settings)
    try:
        # The read-only Palace has the methods that these requests need, and not the others.
        call = methods.Call(palace=cast("Palace", palace), default_limit=settings.recall.limit)
        return wire.to_builtins(methods.answer(call, method, checked))
    finally:
        palace.close()
