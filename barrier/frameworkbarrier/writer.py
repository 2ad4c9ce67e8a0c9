"""Writes the files of an open gang, once or again and again; takes away what a later gang does not have any more."""

from collections.abc import Mapping
from typing import Any

from .errors import GoneError
from .gang import Open
from .kube import Api
from .log import Log
from .output import OutputDirectory
from .render import FRAMEWORK_JSON, render, wants_framework
from .settings import Settings
from .sources import framework_of
from .surroundings import Surroundings
from .views import Look


class Writer:
    """The files in the shared folder. `warn` of each thing is said once."""

    def __init__(self, folder: OutputDirectory, settings: Settings, around: Surroundings, api: Api, log: Log) -> None:
        self._folder = folder
        self._settings = settings
        self._around = around
        self._api = api
        self._log = log
        self._names: set[str] = set()
        self._warned: set[str] = set()

    def write(self, opened: Open, look: Look) -> int:
        """Write all files; returns how many.

        Raises:
            SettingsError: a template cannot be rendered.
            OutputError: a file cannot be written.
        """
        framework = self._framework(opened, look)
        rendered = render(opened, self._settings, look.roster_text, self._around, framework)
        for warning in rendered.warnings:
            self._warn(warning)
        names = {file.name for file in rendered.files}
        if framework is None and self._settings.framework_json == "always":
            self._warn(f"{FRAMEWORK_JSON} is not written: the Framework cannot be read")
        if framework is None and FRAMEWORK_JSON in self._names and wants_framework(opened, self._settings):
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
            self._log.caution(warning)

    def _framework(self, opened: Open, look: Look) -> Mapping[str, Any] | None:
        if not self._settings.framework or not wants_framework(opened, self._settings):
            return None
        if look.framework is not None:
            return look.framework
        try:
            found = framework_of(self._settings, self._api)
        except GoneError:
            return None
        return found.framework if found else None
