"""The node's container runtime: containerd with a configuration, folders and a socket of its own, and its images."""

import json
import shutil
import subprocess
import tarfile
import time
from pathlib import Path

from localcluster.context import Context, Depth
from localcluster.errors import LocalClusterError, SetupError
from localcluster.images import archive
from localcluster.images.buildah import storage_driver
from localcluster.node import namespaces
from localcluster.node.namespaces import filled
from localcluster.progress import task

PAUSE = "localhost/frameworkcontroller/pause:dev"
_SECONDS = 120.0
_HEARS_SECONDS = 2.0
_AGAIN_LABEL = "localcluster.frameworkcontroller/announced-again"


def start(context: Context, init_pid: int) -> None:
    """Start containerd on the node and load the sandbox image."""
    folder = context.state / namespaces.NAME
    networks = folder / "cni"
    networks.mkdir(exist_ok=True)
    pods, gateway = context.network.pods, context.network.gateway
    bridge = filled("bridge.json", ADDRESSES=folder / "addresses", PODS=pods, GATEWAY=gateway)
    (networks / "10-bridge.conflist").write_text(bridge)
    config = folder / "containerd.toml"
    snapshotter = "overlayfs" if storage_driver(folder) == "overlay" else "native"
    places = {"ROOT": folder / "containerd", "PLUGINS": _plugins(), "NETWORKS": networks}
    config.write_text(filled("containerd.toml", PAUSE=PAUSE, SNAPSHOTTER=snapshotter, **places))
    context.processes.start(
        "containerd",
        [*namespaces.inside(init_pid), "containerd", "--config", str(config)],
        ready=lambda: _answers(init_pid),
    )
    load(context, _pause(folder))


def load(context: Context, image_tar: Path) -> None:
    """Make the images of an archive available to the kubelet, unless they are; see `Cluster.load`."""
    init_pid = _init_pid(context)
    found = archive.images(image_tar)
    note = context.state / namespaces.NAME / "images.json"
    try:
        loaded = json.loads(note.read_text())
    except (OSError, ValueError):
        loaded = {}
    if all(loaded.get(name) == digest for name, digest in found.items()):
        return
    with task(f"load {', '.join(found) or image_tar.name}"):
        _change(init_pid, f"import {image_tar}", "import", str(image_tar.absolute()))
        _wait_until_known(init_pid, found)
    note.write_text(json.dumps({**loaded, **found}))


def tag(context: Context, image: str, other: str) -> None:
    """Give an image that was loaded a second full name; see `Cluster.tag`."""
    init_pid = _init_pid(context)
    _change(init_pid, f"name {image} also {other}", "tag", "--force", image, other)
    _wait_until_known(init_pid, {other: ""})


def _change(init_pid: int, what: str, *arguments: str) -> None:
    done = _ctr(init_pid, "images", *arguments)
    if done.returncode:
        raise LocalClusterError(f"containerd does not {what}: {done.stderr.strip()[-1000:]}")


def _init_pid(context: Context) -> int:
    if context.depth is not Depth.NODE:
        raise SetupError(
            f"cluster {context.name!r} has depth {context.depth}, but only depth node has a node that runs images"
        )
    init = namespaces.init(context)
    if init is None:
        raise SetupError(
            f"the node of cluster {context.name!r} is not running:"
            f" start it with `python -m localcluster up --depth node --name {context.name}`"
        )
    return init.pid


def _wait_until_known(init_pid: int, names: dict[str, str]) -> None:
    """Wait until containerd's CRI plugin, which serves the kubelet, has labelled the images as its own.

    It does so at containerd's event about an image. An image that was imported before it listened gets a new label,
    which is an event too.
    """
    deadline = time.monotonic() + _SECONDS
    tell_again = time.monotonic() + _HEARS_SECONDS
    while True:
        listed = _ctr(init_pid, "images", "list").stdout.splitlines()
        marked = {line.split()[0] for line in listed if "io.cri-containerd.image=managed" in line}
        if marked.issuperset(names):
            return
        if time.monotonic() > deadline:
            missing = ", ".join(set(names) - marked)
            raise LocalClusterError(f"containerd did not offer {missing} to the kubelet within {_SECONDS:g} s")
        if time.monotonic() > tell_again:
            tell_again = time.monotonic() + _HEARS_SECONDS
            for name in set(names) - marked:
                _ctr(init_pid, "images", "label", name, f"{_AGAIN_LABEL}={time.monotonic_ns()}")
        time.sleep(0.05)


def _answers(init_pid: int) -> bool:
    try:
        return _ctr(init_pid, "version", timeout_seconds=10).returncode == 0
    except subprocess.TimeoutExpired:
        return False


def _ctr(init_pid: int, *arguments: str, timeout_seconds: float = 600) -> subprocess.CompletedProcess[str]:
    command = [*namespaces.inside(init_pid), "ctr", "--namespace", "k8s.io", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=timeout_seconds)


def _plugins() -> Path:
    folders = (Path("/opt/cni/bin"), Path("/usr/lib/cni"))
    return next(folder for folder in folders if (folder / "host-local").exists())


def _pause(folder: Path) -> Path:
    """Make the sandbox image of Pods, and return its archive.

    It holds one static program that waits, catatonit, which is the init process of the node as well.
    """
    target = folder / "pause.tar"
    if not target.exists():
        program = shutil.which("catatonit")
        assert program
        layer = folder / "pause-layer.tar"
        with tarfile.open(layer, "w") as tar:
            tar.add(Path(program).resolve(), "pause")
        archive.write(
            target, reference=PAUSE, layer=layer, config={"Entrypoint": ["/pause", "-P"], "User": "65535:65535"}
        )
        layer.unlink()
    return target
