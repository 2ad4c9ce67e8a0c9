"""Renders the files that the application reads from an open gang. Pure: no clock, no network, only the package's data.

The writer calls `render` for each generation; `__main__` calls `warm_up` while the gate is still closed.
Source of the files: docs/reference/barrier.md, section 3.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from frameworkbarrier.errors import SettingsError
from frameworkbarrier.files import lists, template_values, variables
from frameworkbarrier.files.container import Container
from frameworkbarrier.files.environment import (
    ENV_FILE_LIMIT,
    Budget,
    OverflowFiles,
    env_file,
    injector_script,
    presets_script,
)
from frameworkbarrier.files.output import PLAIN, SCRIPT, File
from frameworkbarrier.files.restart_notes import RESTARTING, STARTS
from frameworkbarrier.files.variables import Variable
from frameworkbarrier.gate.gate import Released
from frameworkbarrier.presets import model as presets
from frameworkbarrier.presets.model import Preset
from frameworkbarrier.settings import EXIT_HELD, EXIT_SOCKET, Settings
from frameworkbarrier.text import size

FRAMEWORK_JSON = "framework.json"
GENERATION = "generation"
HOSTS = ".hosts"
"""What names of the files of roles end with."""

RUN_SCRIPT = """\
#!/bin/sh
# Starts a command with the gang's variables: run COMMAND [ARGUMENT...]
# FB_RUN=presets, which the injector sets, leaves it at those of the presets.
case "${FB_RUN-}" in
presets)
    unset FB_RUN
    . "${0%/*}/presets.sh"
    ;;
*) . "${0%/*}/injector.sh" ;;
esac
exec "$@"
"""
PYTHON = "# What a Python program of the gang does beside its own work, by sitecustomize.py.\n"
WAIT_MORE_SEC = 60
"""A process waits so much longer than the sidecar lets it, in case that is stuck."""


@dataclass(frozen=True, slots=True)
class Rendered:
    """All files in the order to write them (`generation` last: who finds it finds all of them), and warnings."""

    files: tuple[File, ...]
    warnings: tuple[str, ...]


def warm_up(settings: Settings, container: Container) -> None:
    """Import and compile what rendering will need.

    Raises:
        SettingsError: a template has a wrong syntax.
    """
    if settings.presets or container.templates:
        from frameworkbarrier.files.templates import compile_template

        for name in settings.presets:
            preset = presets.load(name, settings.preset_definitions)
            for variable, source in preset.variables.items():
                compile_template(variable, source)
            for variable, source in preset.short_variables.items():
                compile_template(f"{variable} (short)", source)
            for file, source in preset.files.items():
                compile_template(file, source)
        for name, source in container.templates.items():
            compile_template(name, source)


def render(
    released: Released, settings: Settings, container: Container, framework: Mapping[str, Any] | None = None
) -> Rendered:
    """Make all files of an open gang; `framework` is the decompressed object, None if not wanted or not readable.

    Raises:
        SettingsError: a preset or template cannot be rendered, or FB_PORTS or FB_SLOTS does not fit the gang.
    """
    gang = released.gang
    chosen = [presets.load(name, settings.preset_definitions) for name in settings.presets]
    ports = variables.ports_of(gang, settings.ports, chosen)
    slots = variables.slots_of(gang, settings, by_gpu=any(preset.gpu_slots for preset in chosen))
    own, made = _of_presets(released, chosen, settings, container)
    roles = [variables.lists_of(role, ports.get(role.name)) for role in gang.roles]
    of_roles = [variable for role in roles for variable in role.known()]
    overflow = OverflowFiles(settings.output_dir)
    script = injector_script(roles, own, overflow)
    budget = Budget([*own, *of_roles], overflow, settings.env_syntax)
    of_presets = [budget.take(variable) for variable in own]
    env = [*of_presets, *map(budget.take, of_roles)]
    files = [
        File("injector.sh", script.encode(), SCRIPT),
        File("presets.sh", presets_script(of_presets).encode(), SCRIPT),
        File("env", env_file(env, settings.env_syntax).encode()),
        File("run", _run_script(settings).encode(), SCRIPT),
        File("hosts", lists.hosts_file(released, container.hosts, container.hostname).encode(), in_place=True),
        File("hostfile", lists.hostfile(gang, slots).encode()),
        File("hostfile.mpich", lists.hostfile_mpich(gang, slots).encode()),
        *(File(role.name + HOSTS, lists.role_hosts(role).encode()) for role in gang.roles),
        File("roster.json", released.roster_text.encode()),
    ]
    if settings.exit or "torch" in settings.progress:
        files.append(_program("sitecustomize.py"))
    if "torch" in settings.progress:
        files.append(_program("_frameworkprogress.py"))
    if framework is not None:
        files.append(File(FRAMEWORK_JSON, json.dumps(framework, separators=(",", ":")).encode()))
    files += [File(name, text.encode()) for name, text in overflow.files.items()]
    taken = {file.name for file in files} | {
        GENERATION,
        FRAMEWORK_JSON,
        *((EXIT_SOCKET, EXIT_HELD) if settings.exit else ()),
        *((STARTS, RESTARTING) if settings.restart else ()),
    }
    files += _checked(made, taken)
    files += _user_files(released, chosen, settings, container, taken | {file.name for file in files})
    files.append(File(GENERATION, f"{gang.generation}\n".encode()))
    return Rendered(tuple(files), (*overflow.warnings, *_left_out(chosen, own, settings)))


def _program(name: str) -> File:
    return File(name, (Path(__file__).parent / name).read_bytes())


def _run_script(settings: Settings) -> str:
    exports = []
    if settings.exit:
        exports += ["FB_EXIT_PID=$$", f"FB_EXIT_WAIT_SEC={settings.exit_timeout_sec + WAIT_MORE_SEC}"]
    if "torch" in settings.progress:
        exports += ["FB_PROGRESS_TORCH=1", f"FB_PROGRESS_STACK_SEC={max(settings.hang_floor_sec // 2, 1)}"]
    if not exports:
        return RUN_SCRIPT
    path = 'PYTHONPATH="${0%/*}${PYTHONPATH:+:$PYTHONPATH}"'
    return RUN_SCRIPT.replace("exec ", f"{PYTHON}export {' '.join([path, *exports])}\nexec ")


def _left_out(chosen: list[Preset], own: list[Variable], settings: Settings) -> Iterator[str]:
    """Say that a variable is not set because only torchrun can know it."""
    wanted = any("WORLD_SIZE" in preset.variables for preset in chosen)
    unknown = settings.nproc_per_node and not settings.nproc_per_node.isdecimal()
    if wanted and unknown and "WORLD_SIZE" not in {each.name for each in own}:
        yield (
            "WORLD_SIZE is not set: FB_NPROC_PER_NODE is not a number; torchrun finds the processes of each Pod, and "
            "sets WORLD_SIZE by PET_NNODES and PET_NPROC_PER_NODE"
        )


def _of_presets(
    released: Released, chosen: list[Preset], settings: Settings, container: Container
) -> tuple[list[Variable], list[tuple[Preset, File]]]:
    """Render the presets: variables, each as the first preset that sets it says, and files with their presets."""
    own: dict[str, Variable] = {}
    made: list[tuple[Preset, File]] = []
    for preset in chosen:
        names = template_values.build(released, preset, settings, container.interfaces)
        made += [(preset, _template_file(name, source, names)) for name, source in preset.files.items()]
        own |= {variable.name: variable for variable in _variables(preset, names, own)}
        # Before the next preset's are there: what a template may use takes 8 MiB for a gang of 10,000.
        del names
    return list(own.values()), made


def _variables(preset: Preset, names: Mapping[str, Any], known: Mapping[str, Variable]) -> Iterator[Variable]:
    """Render the variables of a preset that are not known; an empty result sets nothing."""
    from frameworkbarrier.files.templates import render as render_template

    for name, source in preset.variables.items():
        if name in known or not (value := render_template(name, source, names).strip()):
            continue
        short = preset.short_variables.get(name) if size(value) > ENV_FILE_LIMIT // 4 else None
        yield Variable(name, value, render_template(f"{name} (short)", short, names).strip() if short else "")


def _checked(made: list[tuple[Preset, File]], taken: set[str]) -> Iterator[File]:
    """Yield the files of the presets that are not empty, once their names are found to be theirs alone."""
    for preset, file in made:
        if file.name in taken:
            raise SettingsError(f"preset {preset.name}: {file.name!r} is the name of another file of the barrier")
        taken.add(file.name)
        if file.data:
            yield file


def _user_files(
    released: Released, chosen: list[Preset], settings: Settings, container: Container, taken: set[str]
) -> Iterator[File]:
    """Render the user's templates."""
    if not container.templates:
        return
    # Ranks and the head as the first preset that has some counts them.
    ranking = next((preset for preset in chosen if preset.rank_roles), None)
    basis = Preset(
        "",
        {},
        rank_roles=ranking.rank_roles if ranking else (),
        ranks_by_topology=ranking.ranks_by_topology if ranking else any(one.ranks_by_topology for one in chosen),
        heads=next((preset.heads for preset in chosen if preset.heads), ()),
        gpu_slots=any(preset.gpu_slots for preset in chosen),
    )
    names = template_values.build(released, basis, settings, container.interfaces)
    for name, source in container.templates.items():
        if name in taken or not name:
            raise SettingsError(f"template {name}.j2: {name or 'nothing'!r} is the name of a file of the barrier")
        yield _template_file(name, source, names)


def _template_file(name: str, source: str, names: Mapping[str, Any]) -> File:
    """Render a file; one that begins with `#!` is executable."""
    from frameworkbarrier.files.templates import render as render_template

    text = render_template(name, source, names)
    return File(name, text.encode(), SCRIPT if text.startswith("#!") else PLAIN)
