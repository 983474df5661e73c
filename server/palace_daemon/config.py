"""Settings: one frozen value with every default beside its field, and the rules by which it is filled.

Precedence: command line, then environment (``PALACE_<SECTION>_<KEY>``), then ``config.toml``, then the default.
Unknown keys are errors that name the nearest known one. Reading is all that this module does to the file system,
apart from :func:`write_setting`.
"""

from __future__ import annotations

import difflib
import os
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct, field

from palace_daemon import places
from palace_daemon.errors import ConfigError
from palace_daemon.replacing import replacing

Seconds = Annotated[float, Meta(gt=0)]
DrawerChars = Annotated[int, Meta(ge=100, le=20_000)]
"""The chunker needs room for a question and a piece of an answer; beyond 20,000 the model's tokens decide anyway."""


class WatchConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is mined, and when the daemon looks."""

    defaults: bool = True
    """Whether the default directories of the known agents are watched."""
    agents_off: tuple[str, ...] = ()
    """Agents whose default directories are left alone."""
    paths: tuple[str, ...] = ()
    """Further transcript directories or files."""
    ignore_paths: tuple[str, ...] = ()
    """Globs of transcripts that are left alone; what is stored of them is taken out."""
    ignore_projects: tuple[str, ...] = ()
    """The same for projects, by their paths or last names."""
    rescan_s: Seconds = 300.0
    """Seconds between full rescans, which make up for lost notifications."""
    polling: bool = False
    """Whether to look for changes instead of waiting for the system to tell; it is done anyway where that fails."""
    debounce_ms: Annotated[int, Meta(ge=0, le=60_000)] = 150
    """Milliseconds of quiet after a notification before a file is read; a steady writer is read all the same."""
    idle_tail_s: Seconds = 120.0
    """Seconds without change after which a last line that lacks its LF may be taken."""


class ChunkConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How exchanges are cut into drawers."""

    max_chars: DrawerChars = 2_000
    """Characters after which an exchange continues in a further drawer."""
    paragraph_chars: DrawerChars = 800
    """The same in sessions with fewer than ``min_user_turns`` user turns."""
    min_user_turns: Annotated[int, Meta(ge=0)] = 3
    """User turns from which a session is cut by exchanges; 0 never falls back to paragraphs."""


class EmbedConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which model embeds, on how many threads."""

    model: str = "all-minilm-l6-v2-int8"
    threads: Annotated[int, Meta(ge=0, le=256)] = 0
    """Threads that embed, at low priority; 0 takes half of the cores that this process may use, at least one."""


class RecallConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Bounds of an answer."""

    limit: Annotated[int, Meta(ge=1, le=1_000)] = 10
    """Hits when the caller names no limit."""


class ServeConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The daemon's own settings."""

    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"
    tcp: bool = sys.platform == "win32"
    """Whether the daemon listens on 127.0.0.1, too, for clients that know its token; on Windows it always does."""
    tcp_port: Annotated[int, Meta(ge=0, le=65_535)] = 0
    """Which port; 0 takes one that is free. Clients read it from a private file."""
    idle_exit_s: Annotated[float, Meta(ge=0)] = 0.0
    """Seconds without a client and without work after which the daemon ends by itself; 0 is never."""


class Config(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything that can be set."""

    data_dir: Path = field(default_factory=places.data_dir)
    """Holds the database; chosen by ``--data-dir`` or ``PALACE_HOME``, not by the file."""
    watch: WatchConfig = field(default_factory=WatchConfig)
    chunk: ChunkConfig = field(default_factory=ChunkConfig)
    embed: EmbedConfig = field(default_factory=EmbedConfig)
    recall: RecallConfig = field(default_factory=RecallConfig)
    serve: ServeConfig = field(default_factory=ServeConfig)


SECTIONS: dict[str, type[Struct]] = {
    "watch": WatchConfig,
    "chunk": ChunkConfig,
    "embed": EmbedConfig,
    "recall": RecallConfig,
    "serve": ServeConfig,
}


class Setting(Struct, frozen=True, kw_only=True):
    """One effective value and where it came from."""

    name: str
    value: Any
    origin: str
    """``default``, ``file``, ``environment NAME`` or ``command line``."""


def setting_names() -> tuple[str, ...]:
    """Return every settable name, ``section.key``."""
    return tuple(f"{section}.{key}" for section, kind in SECTIONS.items() for key in kind.__struct_fields__)


def load(
    overrides: Mapping[str, Any] | None = None,
    *,
    data_dir: str | os.PathLike[str] | None = None,
    environ: Mapping[str, str] | None = None,
) -> tuple[Config, tuple[Setting, ...]]:
    """Return the effective configuration and the origin of each value.

    Args:
        overrides: ``section.key`` to value, from the command line.
        data_dir: The data directory that the command line names.
        environ: Stands in for ``os.environ``.

    Raises:
        ConfigError: The file is no TOML, a key is unknown, or a value has the wrong type.
    """
    environ = os.environ if environ is None else environ
    layers = [
        (_from_file(places.config_file()), "file"),
        (_from_environment(environ), "environment"),
        (dict(overrides or {}), "command line"),
    ]
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for layer, origin in layers:
        for name, value in layer.items():
            _check_name(name, origin)
            values[name] = _convert(name, value, origin)
            origins[name] = f"environment {_variable(name)}" if origin == "environment" else origin
    sections = {
        section: {key: values[f"{section}.{key}"] for key in kind.__struct_fields__ if f"{section}.{key}" in values}
        for section, kind in SECTIONS.items()
    }
    built = {name: msgspec.convert(sections[name], kind, strict=False) for name, kind in SECTIONS.items()}
    config = msgspec.structs.replace(Config(data_dir=places.data_dir(data_dir)), **built)
    settings = tuple(
        Setting(name=name, value=_get(config, name), origin=origins.get(name, "default")) for name in setting_names()
    )
    return config, settings


def choose(name: str, raw: str) -> Path:
    """Set ``section.key`` for good, by :func:`write_setting`, unless the file would not be heard.

    Raises:
        ConfigError: As there, or the environment sets it.
    """
    if os.environ.get(_variable(name)) is not None:
        raise ConfigError(f"{_variable(name)} is set, which decides about {name}", hint="unset it and start anew")
    return write_setting(name, raw)[0]


def write_setting(name: str, raw: str) -> tuple[Path, Any]:
    """Set ``section.key`` in the settings file, keeping comments and order; lists are TOML's, or comma-separated.

    Returns:
        The file that was written, atomically, with mode 0600, and the value as it was understood.

    Raises:
        ConfigError: The name is unknown, the value does not fit, or the file cannot be read or written.
    """
    import tomlkit  # noqa: PLC0415 - only `config set` needs it

    _check_name(name, "command line")
    value = _convert(name, _split(name, raw, "command line"), "command line")
    # Who keeps the file elsewhere, with a link in this place, goes on doing so.
    path = Path(os.path.realpath(places.config_file()))
    _from_file(path)  # tells what is wrong with it
    document = tomlkit.parse(path.read_text(encoding="utf-8-sig")) if path.exists() else tomlkit.document()
    section, key = name.split(".", 1)
    if section not in document:
        document[section] = tomlkit.table()
    document[section][key] = list(value) if isinstance(value, tuple) else value
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with replacing(path) as file:
            file.write(tomlkit.dumps(document).encode())
    except OSError as exc:
        raise ConfigError(f"cannot write {path}: {exc.strerror}") from exc
    return path, value


def _from_file(path: Path) -> dict[str, Any]:
    try:
        parsed = tomllib.loads(path.read_text(encoding="utf-8-sig"))  # editors on Windows put a mark at the beginning
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as exc:
        # UnicodeDecodeError and TOMLDecodeError are ValueErrors, and so is a number of too many digits.
        raise ConfigError(f"cannot read {path}: {exc}", hint="mend or move the file") from exc
    flat: dict[str, Any] = {}
    for section, body in parsed.items():
        if not isinstance(body, dict):
            _check_name(section, "file")
            continue
        flat.update({f"{section}.{key}": value for key, value in body.items()})
    return flat


def _variable(name: str) -> str:
    return "PALACE_" + name.replace(".", "_").upper()


def _from_environment(environ: Mapping[str, str]) -> dict[str, Any]:
    return {
        name: _split(name, environ[_variable(name)], "environment")
        for name in setting_names()
        if environ.get(_variable(name)) is not None
    }


def _split(name: str, raw: str, origin: str) -> str | list[str]:
    """Return the parts where the setting is a list: a TOML list, or values with commas between them.

    Raises:
        ConfigError: It looks like a list in brackets, or like a string in quotes, and is none.
    """
    section, key = name.split(".", 1)
    if not isinstance(getattr(SECTIONS[section](), key), tuple):
        return raw
    if raw.lstrip().startswith("["):
        return _listed(name, raw.strip(), origin)
    parts = [part.strip() for part in raw.split(",") if part.strip()]
    if any(part[0] in "\"'" and part[-1] == part[0] for part in parts):
        raise ConfigError(f"bad value for {name} from the {origin}: quotes", hint='as in a,b or in ["a", "b"]')
    return parts


def _listed(name: str, raw: str, origin: str) -> list[str]:
    try:
        value = tomllib.loads(f"value = {raw}")["value"]
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, list) or not all(isinstance(part, str) for part in value):
        hint = 'a value that begins with [ must be a list of strings, as ["a", "[bc]*"]'
        raise ConfigError(f"bad value for {name} from the {origin}: no TOML list", hint=hint)
    return value


def _check_name(name: str, origin: str) -> None:
    known = setting_names()
    if name in known:
        return
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(known)}"
    raise ConfigError(f"unknown setting {name!r} from the {origin}", hint=hint)


def _convert(name: str, value: Any, origin: str) -> Any:
    section, key = name.split(".", 1)
    is_switch = isinstance(getattr(SECTIONS[section](), key), bool)
    if is_switch and isinstance(value, str) and value.lower() in {"on", "off", "yes", "no"}:
        value = value.lower() in {"on", "yes"}
    try:
        return getattr(msgspec.convert({key: value}, SECTIONS[section], strict=False), key)
    except msgspec.ValidationError as exc:
        raise ConfigError(f"bad value for {name} from the {origin}: {exc}") from exc


def _get(config: Config, name: str) -> Any:
    section, key = name.split(".", 1)
    return getattr(getattr(config, section), key)
