"""The commands that need no cluster: `lint`, `render`, and what `run` makes of its flags."""

import sys
from collections.abc import Iterable, Sequence
from typing import Any

from frameworkclient.checks.gang import PRESETS
from frameworkclient.checks.lint import lint
from frameworkclient.checks.pods import injected, pods_of
from frameworkclient.checks.problem import Problem, Severity
from frameworkclient.cli.commands.writing import numbers_of
from frameworkclient.cli.exits import ExitCode
from frameworkclient.cli.options import Format, RunFlags
from frameworkclient.cli.output import as_json, as_list, as_yaml, write, write_entries
from frameworkclient.cli.terminal import colours_for, say
from frameworkclient.code import path_of, read_code
from frameworkclient.errors import ArgumentError
from frameworkclient.model.code import Code
from frameworkclient.model.manifest import ARGUMENTS, Framework, RetryPolicy, Role
from frameworkclient.model.pod_template import given
from frameworkclient.views.text import counted, sanitize, seconds_of
from frameworkcontroller.api import names
from frameworkcontroller.api.workload import PRIORITY_LABEL, QUEUE_LABEL

_COLOURS = {Severity.ERROR: "red", Severity.WARNING: "yellow"}


def lint_all(manifests: Sequence[tuple[str, dict[str, Any]]], output: Format) -> ExitCode:
    """Write the problems of Frameworks; USAGE if one has an error."""
    found = [(where, problem) for where, manifest in manifests for problem in lint(manifest)]
    if output in {Format.JSON, Format.YAML}:
        entries = [
            {"file": where, "severity": one.severity.value, "path": one.path, "text": one.text} for where, one in found
        ]
        write_entries("problems", entries, output)
    else:
        write("".join(f"{where}: {_line(problem)}\n" for where, problem in found))
        if not found:
            say(f"{counted(len(manifests), 'Framework')}, no problems")
    failed = any(problem.severity is Severity.ERROR for _, problem in found)
    return ExitCode.USAGE if failed else ExitCode.DONE


def _line(problem: Problem) -> str:
    severity = colours_for(sys.stdout)(problem.severity.value, _COLOURS[problem.severity])
    return f"{severity}: {sanitize(f'{problem.path}: {problem.text}')}"


def tell(manifest: dict[str, Any], where: str = "", only: str = "") -> bool:
    """Say what is wrong with a Framework, or what of it has one severity; report whether there is an error."""
    problems = lint(manifest)
    for problem in problems:
        if only in {"", problem.severity}:
            say(f"{where}{sanitize(str(problem))}")
    return any(problem.severity is Severity.ERROR for problem in problems)


def render_all(
    manifests: Sequence[tuple[str, dict[str, Any]]], namespace: str, output: Format, *, all_tasks: bool
) -> ExitCode:
    """Write the Pods of Frameworks as they would be created; USAGE if a Framework has an error."""
    pods = []
    for where, manifest in manifests:
        if tell(manifest, f"{where}: ", "error"):
            return ExitCode.USAGE
        for task, pod, warnings in pods_of(manifest, namespace, all_tasks=all_tasks):
            for text in warnings:
                say(f"{where}: {task}: warning: {text}")
            pods.append(pod)
    write_objects(pods, output)
    return ExitCode.DONE


def render_templates(
    documents: Iterable[tuple[str, Any]], namespace: str, output: Format, injector_args: Sequence[str]
) -> ExitCode:
    """Write objects of any kind with the barrier in their Pod templates; USAGE if the injector would refuse one."""
    objects, notes, refusals = injected(documents, namespace, injector_args)
    for text in (*notes, *refusals):
        say(sanitize(text))
    if refusals:
        return ExitCode.USAGE
    write_objects(objects, output)
    return ExitCode.DONE


def write_objects(objects: Sequence[dict[str, Any]], output: Format) -> None:
    """Write objects as documents of YAML, or as a list in JSON."""
    write(as_json(as_list(objects)) if output is Format.JSON else "---\n".join(as_yaml(one) for one in objects))


def code_of(flags: RunFlags) -> Code | None:
    """Return what travels with the Framework, None if there is nothing.

    Raises:
        ManifestError: It cannot travel; the message says why.
    """
    files = [file for file in (flags.script, flags.requirements) if file]
    return read_code(flags.workdir or None, files) if flags.workdir or files else None


def framework_of(name: str, flags: RunFlags, code: Code | None) -> Framework:
    """Return the Framework that the flags of `run` describe, and hint at what was probably forgotten.

    Raises:
        ClientError: A flag is not valid; the message names it.
    """
    deadline = seconds_of(flags.timeout, "--timeout") if flags.timeout else None
    if flags.retries < 0:
        raise ArgumentError(f"--retries {flags.retries}: must be 0 or more")
    container: dict[str, Any] = {
        key: value for key, value in vars(flags).items() if key in ARGUMENTS and value is not None
    }
    restart = [f"{names.RESTART_ANNOTATION}={flags.restart}"] if flags.restart else []
    container |= {
        "env": _pairs(flags.env, "--env"),
        "node_selector": _pairs(flags.node_selector, "--node-selector"),
        "labels": _pairs(flags.labels, "--label"),
        "annotations": _pairs([*(flags.annotations or []), *restart], "--annotation"),
        "command": flags.words or [],
        "code": code,
    }
    if flags.script:
        path = path_of(flags.script, flags.workdir or None)
        container["command"] = ["python3", "-u", path, *container["command"]]
    if flags.requirements:
        container["packages"] = ["-r", path_of(flags.requirements, flags.workdir or None)]
    roles = [
        Role.container(role, number, **container) for role, number in numbers_of(flags.roles or ["worker=1"]).items()
    ]
    if sum(role.task_number for role in roles) > 1 and not flags.preset:
        say(
            "note: without --preset the Tasks start as strangers, which neither wait for nor know one another; "
            f"there are the presets {', '.join(PRESETS)}"
        )
    return Framework(
        name,
        roles,
        labels=given(**{QUEUE_LABEL: flags.queue, PRIORITY_LABEL: flags.priority_class}),
        retry_policy=RetryPolicy(fancy_retry_policy=flags.retries > 0, max_retry_count=flags.retries),
        active_deadline_seconds=deadline,
        retain_pods=flags.retain_pods,
        suspend=flags.suspend,
    )


def _pairs(assignments: Sequence[str] | None, flag: str) -> dict[str, str]:
    found = {}
    for assignment in assignments or ():
        name, equals, value = assignment.partition("=")
        if not equals or not name:
            raise ArgumentError(f"{flag} {assignment}: must be NAME=VALUE")
        found[name] = value
    return found
