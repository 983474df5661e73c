"""Putting a Palace together: the daemon, the command line, the bench and the tests all call this."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from palace_daemon import places
from palace_daemon.config import Config
from palace_daemon.core.ports import Embedder, Notifier, StopSignal, TokenCounter
from palace_daemon.errors import ModelError
from palace_daemon.model import ModelView, Progress
from palace_daemon.service.embedding import Loader, ModelHost
from palace_daemon.service.forgetting import rules_of
from palace_daemon.service.offline import OfflinePalace
from palace_daemon.service.palace import LivePalace, Parts
from palace_daemon.service.projects import ProjectResolver
from palace_daemon.store.sqlite import database_path
from palace_daemon.store.store import ReadOnlyStore, Store


def utc_now_ms() -> int:
    """Return the wall clock, UTC epoch ms: the default clock, which dates no exchange."""
    return time.time_ns() // 1_000_000


def build(
    config: Config,
    *,
    embedder: Embedder | None = None,
    notifier: Notifier | None = None,
    clock: Callable[[], int] = utc_now_ms,
) -> LivePalace:
    """Return a Palace over ``config.data_dir``, open for writing; call ``start()`` to watch and ``close()`` to end.

    Args:
        config: The effective settings.
        embedder: Stands in for the configured model.
        notifier: Stands in for the platform's file notifications.
        clock: Stands in for the wall clock.

    Raises:
        StoreError: The database cannot be opened.
    """
    host = ModelHost(config.embed.model, embedder, None if embedder else loader(config))
    store = Store(
        database_path(config.data_dir),
        counter=token_counter(),
        max_chars={"exchange": config.chunk.max_chars, "paragraph": config.chunk.paragraph_chars},
        min_user_turns=config.chunk.min_user_turns,
        project_of=ProjectResolver().project_of,
        ignores_project=rules_of(config.watch).ignores_project,
    )
    return LivePalace(
        Parts(
            config=config,
            store=store,
            models=host,
            notifier=notifier or platform_notifier(config),
            clock=clock,
            list_models=lambda: list_models(config),
        )
    )


def open_read_only(config: Config, *, embedder: Embedder | None = None) -> OfflinePalace:
    """Return a Palace that only answers, over the existing store of ``config.data_dir``.

    The model is loaded if it is installed; otherwise answers are by words and say so.

    Raises:
        StoreError: There is no store, or it cannot be read.
    """
    store = ReadOnlyStore(database_path(config.data_dir))
    host = ModelHost(config.embed.model, embedder, None if embedder else loader(config, may_install=False))
    host.load_now()
    return OfflinePalace(store, host, lambda: list_models(config))


def loader(config: Config, *, may_install: bool = True) -> Loader:
    """Return the way to load the configured model; first use installs it."""

    def load(stop: StopSignal) -> Embedder:
        from palace_daemon.embed import minilm, registry  # noqa: PLC0415 - imports ONNX Runtime

        models = places.models_dir()
        if config.embed.model not in registry.installed(models):
            if not may_install:
                raise ModelError("the model is not installed", hint="run `palace-daemon model install`")
            install_model(config.embed.model, stop=stop)
        return minilm.load(config.embed.model, models, threads=config.embed.threads)

    return load


def install_model(
    model_id: str,
    *,
    source: Path | None = None,
    on_progress: Callable[[Progress], None] | None = None,
    stop: StopSignal | None = None,
) -> Path:
    """Install a model into the shared cache and return its directory; see :mod:`palace_daemon.embed.install`.

    Raises:
        ModelError: It is unknown, cannot be fetched, or fails a check.
    """
    from palace_daemon.embed import install  # noqa: PLC0415 - imports onnx

    return install.install(model_id, places.models_dir(), source=source, on_progress=on_progress, stop=stop)


def list_models(config: Config) -> tuple[ModelView, ...]:
    """Return the known models, installed or not."""
    from palace_daemon.embed import registry  # noqa: PLC0415 - not needed to start

    return registry.views(places.models_dir(), active=config.embed.model)


def token_counter() -> TokenCounter:
    """Return the counter by which drawers are cut; it needs no installed model."""
    from palace_daemon.embed import tokens  # noqa: PLC0415 - imports the tokenizer

    return tokens.MiniLmTokenCounter()


def platform_notifier(config: Config) -> Notifier:
    """Return the platform's file notifications, with polling where they cannot be had or are not wanted."""
    if config.watch.polling:
        from palace_daemon.watch.polling import PollingNotifier  # noqa: PLC0415 - not needed offline

        return PollingNotifier()
    from palace_daemon.watch.observer import WatchdogNotifier  # noqa: PLC0415 - not needed offline

    return WatchdogNotifier(debounce_ms=config.watch.debounce_ms)
