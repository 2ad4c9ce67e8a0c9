"""Reads the presets that the operator defines: a folder of TOML files, the mount of a ConfigMap.

`__main__` reads it once, before the injector serves: a review makes no request and reads no file, and all Pods that a
replica admits have the same presets. Their templates are text here; only the barrier renders them, in its sandbox.
Source: docs/decisions/presets.md#presets-of-operators-travel-with-the-pod.
"""

import tomllib
from pathlib import Path
from typing import Final

from frameworkbarrier.presets import model as presets
from frameworkinjector.errors import InjectorError

_SUFFIX: Final = ".toml"
# All of them may be chosen by one Pod, and become one variable, which Linux bounds to 128 KiB.
MAX_BYTES: Final = 96 * 1024


class OwnPresetsError(InjectorError):
    """The folder of presets cannot be used; the message names the file and the field."""


def read(folder: Path) -> presets.Presets:
    """Return the presets of the folder's `*.toml`, each named after its file; other files are left aside.

    Raises:
        OwnPresetsError: A file cannot be read or is no preset, or all together are too large.
    """
    found = {}
    try:
        # Names that begin with a dot are the kubelet's own in a ConfigMap volume.
        files = sorted(file for file in folder.iterdir() if file.suffix == _SUFFIX and not file.name.startswith("."))
        for file in files:
            try:
                found[file.stem] = presets.decode(file.stem, tomllib.loads(file.read_text(encoding="utf-8")))
            except (presets.PresetError, tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
                raise OwnPresetsError(f"--preset-dir {folder}: {file.name}: {error}") from error
    except OSError as error:
        raise OwnPresetsError(f"--preset-dir {folder}: {error.strerror}: {error.filename}") from error
    if (size := len(presets.encode(found.values()).encode())) > MAX_BYTES:
        raise OwnPresetsError(f"--preset-dir {folder}: the presets take {size} bytes, at most {MAX_BYTES} are possible")
    return found
