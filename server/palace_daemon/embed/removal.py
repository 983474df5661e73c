"""Takes an installed model off the disk, whole: a kill leaves the model, or nothing under its name."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from palace_daemon.embed import placement, registry
from palace_daemon.errors import ModelError


def remove(model_id: str, models_dir: Path) -> int:
    """Remove a model, be it damaged, and return how many bytes that freed.

    Raises:
        ModelError: It is not known or not there, or the file system refuses.
    """
    folder = models_dir / model_id
    if registry.NAME.fullmatch(model_id) is None or not (folder / registry.RECORD_FILE).exists():
        registry.spec(model_id, models_dir)  # names the known ones
        if not folder.exists():
            raise ModelError(f"the model {model_id} is not installed in {models_dir}")
    with placement.alone(models_dir, None):
        try:
            return _remove(folder)
        except OSError as exc:
            raise ModelError(f"cannot remove {folder}: {exc.strerror or exc}") from exc


def _remove(folder: Path) -> int:
    if folder.is_symlink():  # what it leads to is somebody's own
        folder.unlink()
        return 0
    freed = sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file())
    aside = Path(tempfile.mkdtemp(prefix=placement.REPLACED, dir=folder.parent))
    folder.rename(aside / folder.name)
    shutil.rmtree(aside, ignore_errors=True)  # what stays is swept by the next install
    return freed
