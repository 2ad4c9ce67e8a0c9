"""The commands that make a Framework, with their flags: `run`, `submit`, `lint`, `render`."""

from typing import Annotated

import typer

from frameworkclient.cli.exits import ExitCode
from frameworkclient.cli.options import Document, DryDocument, Files, Format, Name, Report, RunFlags, Settings, command
from frameworkclient.cli.output import write, write_document
from frameworkclient.cli.run import Cluster
from frameworkclient.cli.terminal import say
from frameworkclient.errors import ArgumentError

app = typer.Typer()


@command(app, "run training --image pytorch/pytorch --preset pytorch --role worker=4 --script train.py --logs")
def run(
    cluster: Cluster,
    name: Name,
    flags: RunFlags,
    wait: Annotated[bool, typer.Option("--wait", help="Stay until it is Completed.")] = False,
    show_logs: Annotated[bool, typer.Option("--logs", help="Stay, and show the logs of all Tasks.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be submitted, and do nothing.")] = False,
    output: DryDocument = Format.YAML,
) -> ExitCode | None:
    """Run a command on several Pods, without YAML."""
    from frameworkclient.cli.commands import offline, writing
    from frameworkclient.model.set_field import set_field

    if not flags.image:
        raise ArgumentError("--image: is missing; name the image of the containers")
    if flags.suspend and (wait or show_logs):
        raise ArgumentError("--suspend: nothing runs that --wait or --logs could follow; remove one of them")
    if flags.priority_class and not flags.queue:
        raise ArgumentError("--priority-class: needs --queue")
    code = offline.code_of(flags)
    if flags.list_files:
        write("".join(f"{size}\t{path}\n" for path, size in (code.sizes if code else {}).items()))
        return None
    manifest = offline.framework_of(name, flags, code).to_dict()
    for assignment in flags.settings or ():
        set_field(manifest, assignment)
    if offline.tell(manifest):
        return ExitCode.USAGE
    if dry_run:
        if code:
            offline.write_objects([manifest, code.config_map()], output)
        else:
            write_document(manifest, output)
        return None
    if code:
        say(f"code: {code}")
    codes, created = [code] if code else [], list[tuple[str, str]]()
    return cluster.stay(
        created,
        lambda client: writing.submit(client, [manifest], codes, created, dry_run=False, wait=wait, logs=show_logs),
    )


@command(app, "submit -f training.yaml --wait")
def submit(
    cluster: Cluster,
    filename: Files,
    settings: Settings = None,
    wait: Annotated[bool, typer.Option("--wait", help="Stay until it is Completed.")] = False,
    show_logs: Annotated[bool, typer.Option("--logs", help="Stay, and show the logs of all Tasks.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Let the API server check it; create nothing.")] = False,
) -> ExitCode | None:
    """Create the Frameworks of a file."""
    from frameworkclient.cli.commands import offline, writing

    found = writing.manifests_in(filename, settings)
    writing.check_namespaces(found, cluster.namespace)
    manifests = [manifest for _, manifest in found]
    for where, manifest in found:
        # Errors are said by the API server.
        offline.tell(manifest, f"{where}: ", "warning")
    created = list[tuple[str, str]]()
    return cluster.stay(
        created,
        lambda client: writing.submit(client, manifests, (), created, dry_run=dry_run, wait=wait, logs=show_logs),
    )


@command(app, "lint -f training.yaml")
def lint(filename: Files, settings: Settings = None, output: Report = Format.TABLE) -> ExitCode:
    """Check the Frameworks of a file, without a cluster."""
    from frameworkclient.cli.commands import offline, writing

    return offline.lint_all(writing.manifests_in(filename, settings, others=True), output)


@command(app, "render -f training.yaml --all")
def render(
    filename: Files,
    settings: Settings = None,
    namespace: Annotated[str, typer.Option("--namespace", "-n", help="Where they would be created.")] = "default",
    all_tasks: Annotated[bool, typer.Option("--all", help="All Tasks, not only the first of each role.")] = False,
    templates: Annotated[
        bool, typer.Option("--templates", help="Print objects of any kind, the barrier in their Pod templates.")
    ] = False,
    injector_arg: Annotated[
        list[str] | None,
        typer.Option(
            help="With --templates: flag of the injector, like --injector-arg=--preset-dir=presets; repeatable.",
        ),
    ] = None,
    output: Document = Format.YAML,
) -> ExitCode:
    """Print the Pods of a file's Frameworks, without a cluster.

    Placeholders are filled and the barrier is injected, as the controller and the injector of this version do.
    """
    from frameworkclient.cli.commands import offline, writing

    if templates:
        if all_tasks or settings:
            raise ArgumentError("--templates: takes neither --all nor --set, which are for the Pods of Frameworks")
        return offline.render_templates(writing.documents_in(filename), namespace, output, injector_arg or [])
    if injector_arg:
        raise ArgumentError("--injector-arg: needs --templates; the Pods of Frameworks have the default settings")
    manifests = writing.manifests_in(filename, settings, others=True)
    return offline.render_all(manifests, namespace, output, all_tasks=all_tasks)
