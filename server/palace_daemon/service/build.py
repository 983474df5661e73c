"""Putting a Palace together: the daemon, the command line, the bench and the tests all call this."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from palace_daemon import places
from palace_daemon.config import Config
from palace_daemon.core.ports import Embedder, Notifier, StopSignal, TokenCounter
from palace_daemon.errors import ModelError
from palace_daemon.model import ModelView, Progress
from palace_daemon.service.forgetting import rules_of
from palace_daemon.service.model_host import Loader, ModelHost
from palace_daemon.service.models import Models
from palace_daemon.service.offline import OfflinePalace
from palace_daemon.service.palace import LivePalace, Parts
from palace_daemon.service.projects import ProjectResolver
from palace_daemon.store.sqlite import database_path
from palace_daemon.store.store import ReadOnlyStore, Store

if TYPE_CHECKING:
    from palace_daemon.embed.folder import Wishes


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
    return LivePalace(
        Parts(
            config=config,
            store=open_store(config),
            models=_models(config, embedder),
            open_model=lambda model_id: open_model(config, model_id),
            threads=lambda: threads(config),
            notifier=notifier or platform_notifier(config),
            clock=clock,
            list_models=lambda: list_models(config),
        )
    )


def open_store(config: Config) -> Store:
    """Return the store of ``config.data_dir``, open for writing; a missing or outdated index is built.

    Raises:
        StoreError: The database cannot be opened.
    """
    return Store(
        database_path(config.data_dir),
        counter=token_counter(),
        max_chars={"exchange": config.chunk.max_chars, "paragraph": config.chunk.paragraph_chars},
        min_user_turns=config.chunk.min_user_turns,
        project_of=ProjectResolver().project_of,
        ignores_project=rules_of(config.watch).ignores_project,
    )


def open_read_only(config: Config, *, embedder: Embedder | None = None) -> OfflinePalace:
    """Return a Palace that only answers, over the existing store of ``config.data_dir``.

    The model is loaded if it is installed; otherwise answers are by words and say so.

    Raises:
        StoreError: There is no store, or it cannot be read.
    """
    store = ReadOnlyStore(database_path(config.data_dir))
    try:
        store.check_is_current()
        models = _models(config, embedder, may_install=False)
        models.load_now(store.spaces())
    except BaseException:
        store.close()
        raise
    return OfflinePalace(store, models, lambda: list_models(config))


def _models(config: Config, embedder: Embedder | None, *, may_install: bool = True) -> Models:
    """Return the holder of the configured model, or of ``embedder``, and of what the store's vectors were made by."""
    if embedder is not None:
        wanted = ModelHost(embedder.model_id, embedder, None)
    else:
        load = loader(config, config.embed.model, may_install=may_install)
        wanted = ModelHost(config.embed.model, None, load, space=_fingerprint(config.embed.model))
    return Models(wanted, lambda space: _open_space(config, space))


def open_model(config: Config, model_id: str) -> ModelHost:
    """Return a host for a known model, which is installed where that is needed.

    Raises:
        ModelError: There is no such model.
    """
    from palace_daemon.embed import registry  # noqa: PLC0415 - not needed to start

    space = registry.spec(model_id).fingerprint
    return ModelHost(model_id, None, loader(config, model_id), space=space)


def _open_space(config: Config, space: str) -> ModelHost | None:
    """Return a host for the model that made the vectors of ``space``, unless this version makes others by that name."""
    model_id = space.partition("@")[0]
    if _fingerprint(model_id) != space:
        return None
    return ModelHost(model_id, None, loader(config, model_id, may_install=False), space=space)


def _fingerprint(model_id: str) -> str:
    """Return the space of a model; empty where it is not known."""
    from palace_daemon.embed import registry  # noqa: PLC0415 - not needed to start

    try:
        return registry.spec(model_id).fingerprint
    except ModelError:
        return ""


def loader(config: Config, model_id: str, *, may_install: bool = True) -> Loader:
    """Return the way to load a model; first use installs it."""

    def load(stop: StopSignal) -> Embedder:
        from palace_daemon.embed import minilm, registry  # noqa: PLC0415 - imports ONNX Runtime

        models = places.models_dir()
        if model_id not in registry.installed(models):
            if not may_install:
                raise ModelError("the model is not installed", hint="run `palace-daemon model install`")
            install_model(model_id, stop=stop)
        return minilm.load(model_id, models, threads=threads(config))

    return load


def threads(config: Config) -> int:
    """Return on how many threads texts are embedded: half of the cores, unless the settings say otherwise."""
    from palace_daemon.embed import minilm  # noqa: PLC0415 - imports the runtime's neighbours

    return config.embed.threads or max(1, minilm.usable_cores() // 2)


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


def install_from(
    folder: Path,
    *,
    model_id: str = "",
    wishes: Wishes | None = None,
    default_id: str = "",
    on_progress: Callable[[Progress], None] | None = None,
) -> tuple[str, Path]:
    """Install the model in ``folder`` into the shared cache; return its id and its directory.

    See :func:`palace_daemon.embed.added.install_from`.

    Raises:
        ModelError: It cannot be taken; the message says what is wrong, where, and what to do.
    """
    from palace_daemon.embed import added  # noqa: PLC0415 - imports onnx

    return added.install_from(
        folder,
        places.models_dir(),
        model_id=model_id,
        wishes=wishes,
        default_id=default_id,
        on_progress=on_progress,
    )


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
