"""Writes the files of an open gang, and removes those that a later gang no longer has.

`__main__` calls `write` once when the gate opens, and the sidecar for each later generation. It promises that a reader
who finds the file `generation` finds all files of that generation. It knows no network: what it must read is handed in.
"""

from collections.abc import Callable, Mapping
from typing import Any

from frameworkbarrier.files.container import Container
from frameworkbarrier.files.output import OutputDirectory
from frameworkbarrier.files.render import FRAMEWORK_JSON, HOSTS, render
from frameworkbarrier.gate.gate import Released
from frameworkbarrier.log import Log
from frameworkbarrier.settings import Settings


class Writer:
    """The files in the shared folder; it warns of each thing once.

    `read_framework` reads the Framework object, decompressed; it returns None if it cannot be read now.
    """

    def __init__(
        self,
        folder: OutputDirectory,
        settings: Settings,
        container: Container,
        read_framework: Callable[[], Mapping[str, Any] | None],
        log: Log,
    ) -> None:
        self._folder = folder
        self._settings = settings
        self._container = container
        self._read_framework = read_framework
        self._log = log
        # Of a start before this one, of whose gang a role may have been deleted since.
        self._names = {name for name in folder.names() if settings.restart and name.endswith(HOSTS)}
        self._warned: set[str] = set()

    def write(self, released: Released) -> int:
        """Write all files; returns how many.

        Raises:
            SettingsError: a template cannot be rendered.
            OutputError: a file cannot be written.
        """
        wanted = bool(self._settings.framework) and self._settings.wants_framework(released.gang.total)
        framework = (released.framework or self._read_framework()) if wanted else None
        rendered = render(released, self._settings, self._container, framework)
        for warning in rendered.warnings:
            self._warn(warning)
        names = {file.name for file in rendered.files}
        if framework is None and self._settings.framework_json == "always":
            self._warn(f"{FRAMEWORK_JSON} is not written: the Framework cannot be read")
        if framework is None and wanted and FRAMEWORK_JSON in self._names:
            names.add(FRAMEWORK_JSON)  # an old one is better than none
        for name in self._names - names:
            self._folder.remove(name)
        for file in rendered.files:
            self._folder.write(file)
        self._names = names
        return len(rendered.files)

    def _warn(self, warning: str) -> None:
        thing = warning.split(" ", 1)[0]
        if thing not in self._warned:
            self._warned.add(thing)
            self._log.warning(warning)
