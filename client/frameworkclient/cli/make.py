"""The commands that make a Framework, with their flags: `run`, `submit`, `lint`, `render`."""

from typing import Annotated

import typer

from frameworkclient.cli.exits import ExitCode
from frameworkclient.cli.options import (
    Document,
    DryDocument,
    Files,
    Format,
    Name,
    Report,
    Settings,
    command,
    complete_preset,
)
from frameworkclient.cli.output import write, write_document
from frameworkclient.cli.run import Cluster
from frameworkclient.cli.terminal import say
from frameworkclient.errors import ArgumentError
from frameworkclient.views.text import seconds_of
from frameworkcontroller.api import names

app = typer.Typer()


@command(app, "run training --image pytorch/pytorch --preset pytorch --role worker=4 --script train.py --logs")
def run(
    cluster: Cluster,
    name: Name,
    words: Annotated[list[str] | None, typer.Argument(help="The command, after --.", metavar="-- COMMAND...")] = None,
    image: Annotated[str, typer.Option(help="Image of the containers.")] = "",
    script: Annotated[
        str, typer.Option(help="Python file of this machine that runs in them; what follows -- are its arguments.")
    ] = "",
    workdir: Annotated[
        str,
        typer.Option(help="Folder of this machine that the command finds where it starts, without what git ignores."),
    ] = "",
    requirements: Annotated[
        str, typer.Option(help="File of this machine with packages that pip installs before the command starts.")
    ] = "",
    list_files: Annotated[bool, typer.Option("--list-files", help="Print the files that would travel.")] = False,
    role: Annotated[
        list[str] | None, typer.Option(help="Role with its Tasks, like worker=4; repeatable.", show_default="worker=1")
    ] = None,
    preset: Annotated[
        str,
        typer.Option(
            help="Preset of the barrier, like pytorch: the Pods wait for one another.", autocompletion=complete_preset
        ),
    ] = "",
    restart: Annotated[
        str, typer.Option(help="in-place: an exit or a rescale starts the whole gang again in its Pods.")
    ] = "",
    cpu: Annotated[str, typer.Option(help="Cores of each Pod, like 2 or 500m.")] = "",
    memory: Annotated[str, typer.Option(help="Memory of each Pod, like 4Gi.")] = "",
    gpus: Annotated[int, typer.Option(help="GPUs of each Pod.")] = 0,
    gpu_resource: Annotated[str, typer.Option(help="What the cluster calls a GPU.")] = "nvidia.com/gpu",
    env: Annotated[list[str] | None, typer.Option("--env", "-e", help="Variable, NAME=VALUE; repeatable.")] = None,
    volume: Annotated[list[str] | None, typer.Option(help="Claim and its place, CLAIM:/path[:ro]; repeatable.")] = None,
    shm: Annotated[str, typer.Option(help="Size of /dev/shm, like 8Gi, which counts as memory.")] = "",
    node_selector: Annotated[list[str] | None, typer.Option(help="Label of the nodes, NAME=VALUE; repeatable.")] = None,
    toleration: Annotated[
        list[str] | None, typer.Option(help="Taint to tolerate, KEY[=VALUE][:EFFECT]; repeatable.")
    ] = None,
    label: Annotated[list[str] | None, typer.Option(help="Label of the Pods, NAME=VALUE; repeatable.")] = None,
    annotation: Annotated[
        list[str] | None, typer.Option(help="Annotation of the Pods, NAME=VALUE; repeatable.")
    ] = None,
    service_account: Annotated[str, typer.Option(help="Service account of the Pods.")] = "",
    pull_secret: Annotated[list[str] | None, typer.Option(help="Secret for the registry; repeatable.")] = None,
    user: Annotated[int | None, typer.Option(help="Number of the user that runs the command.")] = None,
    restricted: Annotated[
        bool, typer.Option("--restricted", help="Keep to the restricted Pod Security Standard.")
    ] = False,
    settings: Settings = None,
    queue: Annotated[str, typer.Option(help="LocalQueue of Kueue by which it waits.")] = "",
    priority_class: Annotated[str, typer.Option(help="WorkloadPriorityClass of Kueue, with --queue.")] = "",
    retries: Annotated[
        int, typer.Option(help="Retries of the whole Framework; transient failures are always retried then.")
    ] = 0,
    timeout: Annotated[str, typer.Option(help="How long it may run, retries included, like 2h.")] = "",
    retain_pods: Annotated[
        str, typer.Option(help="Pods that stay after their end, with their logs: Never, OnFailure or Always.")
    ] = "OnFailure",
    suspend: Annotated[bool, typer.Option("--suspend", help="Let it wait until it is resumed.")] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Stay until it is Completed.")] = False,
    show_logs: Annotated[bool, typer.Option("--logs", help="Stay, and show the logs of all Tasks.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be submitted, and do nothing.")] = False,
    output: DryDocument = Format.YAML,
) -> ExitCode | None:
    """Run a command on several Pods, without YAML."""
    from frameworkclient.cli.commands import offline, writing
    from frameworkclient.code import path_of
    from frameworkclient.model.set_field import set_field

    if not image:
        raise ArgumentError("--image: is missing; name the image of the containers")
    if suspend and (wait or show_logs):
        raise ArgumentError("--suspend: nothing runs that --wait or --logs could follow; remove one of them")
    if priority_class and not queue:
        raise ArgumentError("--priority-class: needs --queue")
    code = offline.code_of(script, workdir, requirements)
    if list_files:
        write("".join(f"{size}\t{path}\n" for path, size in (code.sizes if code else {}).items()))
        return None
    framework = offline.framework_of(
        name,
        command=["python3", "-u", path_of(script, workdir or None), *(words or [])] if script else words or [],
        packages=["-r", path_of(requirements, workdir or None)] if requirements else [],
        code=code,
        roles=role or [],
        pairs={
            "env": env or [],
            "node_selector": node_selector or [],
            "labels": label or [],
            "annotations": [*(annotation or []), *([f"{names.RESTART_ANNOTATION}={restart}"] if restart else [])],
        },
        queue=queue,
        priority_class=priority_class,
        retries=retries,
        retain_pods=retain_pods,
        suspend=suspend,
        deadline=seconds_of(timeout, "--timeout") if timeout else None,
        image=image,
        preset=preset,
        cpu=cpu,
        memory=memory,
        gpus=gpus,
        gpu_resource=gpu_resource,
        volumes=volume or [],
        shm=shm,
        tolerations=toleration or [],
        service_account=service_account,
        pull_secrets=pull_secret or [],
        user=user,
        restricted=restricted,
    )
    manifest = framework.to_dict()
    for assignment in settings or ():
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
    codes = [code] if code else []
    return cluster.stay(
        name, lambda client: writing.submit(client, [manifest], codes, dry_run=False, wait=wait, logs=show_logs)
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
    names = ", ".join(str((manifest.get("metadata") or {}).get("name")) for manifest in manifests)
    return cluster.stay(
        names, lambda client: writing.submit(client, manifests, (), dry_run=dry_run, wait=wait, logs=show_logs)
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
