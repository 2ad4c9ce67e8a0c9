"""Presets: the table of the documentation, made from their files, and the files with which a new one begins."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from frameworkbarrier.presets import model
from frameworkrelease.chart import REPOSITORY
from frameworkrelease.commands import ReleaseError
from frameworkrelease.generate import pages

PAGE: Final = REPOSITORY / "docs" / "presets.md"
EXAMPLES: Final = REPOSITORY / "examples"
INDEX: Final = EXAMPLES / "README.md"
_ANNOTATIONS: Final = {
    "ports": r"\.(port|address|addresses)\b",
    "tf-roles": r"\btf_roles\b",
    "nproc-per-node": r"\b(nproc|launched)\b",
    "nnodes": r"\bnnodes\b",
    "max-restarts": r"\bmax_restarts\b",
    "slots": r"\b(slots|hostfile)\b",
    "addresses": r"\b(task|head|me|ranks\[0\])\.name\b|attribute='name'",
}
"""Settings that a preset heeds, by what its templates use."""
_KINDS: Final = {
    "training libraries": (),
    "a gang that starts again": ("progress", "pytorch-elastic", "pytorch-restart", "tensorflow-restart"),
    "services and data": (
        *("dask", "etcd", "etl", "hdfs", "kafka", "mapreduce", "nginx", "ray", "service-and-batch", "serving", "spark"),
    ),
    "the life of a Framework": ("prestart-poststop", "rescale", "retries", "suspend", "sweep", "wrapper"),
    "queues and schedulers": ("hived", "kueue", "schedulers"),
}
"""The tables of the examples, each with its examples; the first one has all others."""
_SKELETON: Final = Path(__file__).parent / "skeleton"
_SHAPES: Final = {
    "one-task": ({"worker": 1}, 0),
    "three-roles": ({"worker": 2, "master": 1, "dashboard": 1}, 1),
    "thousand-tasks": ({"master": 1, "worker": 999}, 998),
}
"""The gangs of the goldens of every preset, and the index of the worker whose files they are."""


def page(written: str) -> str:
    """Return the page of presets, or the index of the examples, with what is between its markers renewed."""
    examples = {kind: _examples(kind) for kind in _KINDS}
    return pages.renewed(written, {"presets": _presets(), "variables": _variables(), **examples})


def begin(name: str, root: Path = REPOSITORY) -> list[Path]:
    """Write the files of a new preset, which runs as it is: its definition, the cases of its goldens, its example.

    Raises:
        ReleaseError: The name is none, or there is such a preset or example.
    """
    if not re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?", name):
        raise ReleaseError(f"NAME={name}: must be lower-case letters, digits and '-', at most 40")
    prefix = re.sub(r"\W", "_", name).upper()
    place = 1 + max(model.load(one).place for one in model.names())
    goldens, example = root / "tests" / "barrier" / "golden", root / "examples" / name
    made = {root / "barrier" / "frameworkbarrier" / "presets" / f"{name}.toml": _SKELETON / "preset.toml"}
    made |= {
        example / file.name.removesuffix(".in"): file
        for file in sorted(_SKELETON.iterdir())
        if file.name != "preset.toml"
    }
    if found := [file for file in made if file.exists()]:
        raise ReleaseError(f"NAME={name}: there is {found[0].relative_to(root)} already")
    example.mkdir(parents=True)
    for file, skeleton in made.items():
        text = re.sub(r"\bNAME\b(?!=)", name, skeleton.read_text())
        file.write_text(text.replace("PREFIX", prefix).replace("PLACE", str(place)))
    cases: list[Path] = []
    for shape, (gang, worker) in _SHAPES.items():
        case = {"shape": gang, "me": ["worker", worker], "environment": {"FB_PRESET": name}}
        cases.append(goldens / f"{name}-{shape}.json")
        cases[-1].write_text(json.dumps(case, indent=2) + "\n")
    return [*made, *cases]


def _presets() -> Iterator[str]:
    rows = []
    for preset in map(model.load, model.in_order()):
        known = (("ranks", preset.rank_roles), ("head", preset.heads))
        roles = "; ".join(f"{what}: {', '.join(names)}" for what, names in known if names)
        text = " ".join([*preset.variables.values(), *preset.files.values()])
        heeds = [name for name, pattern in _ANNOTATIONS.items() if re.search(pattern, text)]
        heeds += ["rank-roles"] * bool(preset.rank_roles or preset.ranks_by_topology)
        heeds += ["head-role"] * bool(preset.heads)
        annotations, examples = ", ".join(f"`{name}`" for name in heeds), ", ".join(_used_by(preset.name))
        rows.append((f"`{preset.name}`", preset.port or "none", roles, annotations, examples))
    head = ("preset", "port", "the roles that have ranks, or the head", "annotations", "examples")
    return pages.table(head, rows)


def _variables() -> Iterator[str]:
    rows = (
        (f"`{one.name}`", " ".join(f"`{name}`" for name in (*one.variables, *one.files)), " ".join(one.doc.split()))
        for one in map(model.load, model.in_order())
    )
    return pages.table(("preset", "variables and files", "values, and how the program takes them"), rows)


def _examples(kind: str) -> Iterator[str]:
    others = {name for names in _KINDS.values() for name in names}
    titles = {
        file.parent.name: file.read_text().partition("\n")[0].removeprefix("# ")
        for file in sorted(EXAMPLES.glob("*/README.md"))
    }
    shown = _KINDS[kind] or titles.keys() - others
    rows = ((f"[{name}]({name}/README.md)", title) for name, title in titles.items() if name in shown)
    return pages.table(("example", "what it shows"), rows)


def _used_by(preset: str) -> list[str]:
    """Return links to the examples that use a preset, the shortest name first."""
    asks = re.compile(rf"/preset: .*\b{preset}\b")
    found = {file.parent.name for file in EXAMPLES.glob("*/*.yaml") if asks.search(file.read_text())}
    return [f"[{name}](../examples/{name}/README.md)" for name in sorted(found, key=lambda name: (len(name), name))]
