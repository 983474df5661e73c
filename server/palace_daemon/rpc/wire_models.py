"""Models and the texts that they embed, on the wire; see :mod:`palace_daemon.rpc.wire`."""

from __future__ import annotations

from typing import Literal

from msgspec import UNSET, UnsetType

from palace_daemon.rpc.wire_base import Name, Params, Result


class ModelsParams(Params, frozen=True):
    """Lists the models, and chooses one."""

    use: Name | UnsetType = UNSET
    """The id of a model: written to the settings, and used from now on."""


class WireCoverage(Result, frozen=True):
    """How many of the stored texts have a vector of one model."""

    model: str
    space: str
    """The model's fingerprint: vectors of another version of it are another space."""
    role: Literal["answering", "next", "previous"]
    vectors: int
    texts: int


class WireEmbedding(Result, frozen=True):
    """How the stored texts get their vectors, and how far that is."""

    is_switching: bool
    """Whether the model that is chosen does not answer yet."""
    coverage: tuple[WireCoverage, ...]
    """The model that answers first."""
    texts_per_s: float
    eta_s: float | None
    threads: int
    truncated: int
    """Texts that a model did not see whole."""
    model_load_ms: float | None
    """From the start of loading until the chosen model was ready; null before that."""
    is_paused: bool
    windowed: int = 0
    """Texts longer than the model takes, which got the mean of their windows since it was loaded."""


class PauseResult(Result, frozen=True):
    """Whether mining and embedding rest now."""

    is_paused: bool
