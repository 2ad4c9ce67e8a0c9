"""`python -m frameworkrelease`: the command line."""

import shlex
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Final

import typer

from frameworkcontroller.api import definition
from frameworkcontroller.engine.config.settings import FILE_NAME, default_config
from frameworkrelease import build as building
from frameworkrelease import chart, figures, signing
from frameworkrelease import check as checking
from frameworkrelease import cut as cutting
from frameworkrelease import publish as publishing
from frameworkrelease.chart import CHART, REPOSITORY
from frameworkrelease.commands import ReleaseError
from frameworkrelease.generate import codes, fields, matrix, performance, permissions, pictures, plain, presets, schema
from frameworkrelease.release import HELLO, PREFIX, Release
from localcluster.errors import LocalClusterError
from localcluster.images import base
from localcluster.programs.binaries import cache_root
from localcluster.programs.catalogue import BUILDABLE

RELEASES: Final = REPOSITORY / "build" / "release"
GENERATED: Final[Mapping[Path, Callable[[str], str]]] = {
    # The chart first, because the manifests are made from it.
    CHART / "files" / "crd.yaml": lambda _: definition.text(),
    CHART / "files" / FILE_NAME: lambda _: default_config(),
    CHART / "files" / HELLO: lambda _: (REPOSITORY / "deploy" / HELLO).read_text(),
    schema.FILE: schema.text,
    fields.PAGE: fields.page,
    plain.FILE: lambda _: plain.manifests(),
    permissions.PAGE: lambda written: permissions.page(written, chart.rendered(*permissions.VALUES)),
    matrix.PAGE: lambda written: matrix.page(written, performance.read(matrix.FILE)),
    presets.PAGE: presets.page,
    presets.INDEX: presets.page,
    codes.PAGE: codes.page,
    performance.PAGE: lambda written: performance.tables(written, performance.read()),
    **{pictures.FOLDER / name: made for name, made in pictures.PICTURES.items()},
}
"""What is made from code or from the chart: each file, and the function that makes its text of the one that it has."""
app = typer.Typer(
    no_args_is_help=True, add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False,
    help="Generated files, versions and releases.",
)  # fmt: skip


def _given(example: str) -> Callable[[str], str]:
    """Refuse the empty text that make passes for a variable that is not set."""

    def read(text: str) -> str:
        if not text:
            raise typer.BadParameter(f"it is missing: add {example}")
        return text

    return read


Version = Annotated[str, typer.Argument(callback=_given("VERSION=1.2.3"))]
Key = Annotated[
    str,
    typer.Option(callback=_given("KEY=cosign.key; `make release-key` makes one"), help="The private key of cosign."),
]
Registry = Annotated[str, typer.Option(help="The registry and the path of the images.")]


def main(argv: Sequence[str] | None = None) -> None:
    """Run one command; the process ends with 0, 1 after an error, 2 for wrong usage."""
    try:
        app(argv)
    except (ReleaseError, LocalClusterError) as error:
        sys.exit(f"error: {error}")


@app.command()
def manifests() -> None:
    """Write every file that is made from code or from the chart."""
    for file, made in GENERATED.items():
        file.write_text(made(file.read_text()))


@app.command()
def preset(name: Annotated[str, typer.Argument(callback=_given("NAME=x"))]) -> None:
    """Write the files with which a new preset begins."""
    typer.echo("\n".join(str(file.relative_to(REPOSITORY)) for file in presets.begin(name)))


@app.command()
def cut(version: Version) -> None:
    """Check that a version can be cut."""
    cutting.check(version)


@app.command()
def notes(version: Version) -> None:
    """Print what the changelog says of the version of the sources."""
    typer.echo(cutting.notes(version))


@app.command()
def build(version: Version, key: Key, registry: Registry = PREFIX) -> None:
    """Build and sign all artefacts of a version from the last commit."""
    building.require_clean()
    target = RELEASES / version
    with tempfile.TemporaryDirectory() as folder:
        sources = building.export(version, Path(folder))
        building.build(sources, target, prefix=registry.rstrip("/"))
    signing.sign(target, key)
    typer.echo(target)


@app.command()
def check(version: Version, key: Key) -> None:
    """Verify a release, and install it from a local registry."""
    checking.check(_built(version, key), key)
    typer.echo(f"release {version} is verified, and installs")


@app.command()
def publish(version: Version, key: Key, registry: Registry = PREFIX) -> None:
    """Push images and chart of a release to a registry, and sign them."""
    published = publishing.publish(_built(version, key), registry.rstrip("/"), key)
    typer.echo("\n".join(published.values()))


@app.command()
def key(prefix: Path) -> None:
    """Make a pair of keys, PREFIX.key and PREFIX.pub."""
    typer.echo("\n".join(map(str, signing.make_key(prefix))))


@app.command()
def lock_base() -> None:
    """Lock the base image of releases to Debian's packages of today."""
    lock = base.relock(cache_root() / "images")
    typer.echo(f"{base.LOCK}: {len(lock.packages)} packages, {lock.layer}")


@app.command("matrix")
def run_matrix(
    versions: Annotated[list[str] | None, typer.Argument(help="Of Kubernetes; by default all supported ones.")] = None,
    pytest: Annotated[str, typer.Option(help="More arguments of pytest, such as '-n 4'.")] = "",
) -> None:
    """Run the tests on versions of Kubernetes, and write the page of supported versions."""
    if not matrix.run_all(versions or BUILDABLE, shlex.split(pytest)):
        raise typer.Exit(1)


@app.command()
def scale(
    files: Annotated[list[Path] | None, typer.Argument(exists=True, help="By default all of build/bench.")] = None,
) -> None:
    """Keep what the benchmarks have measured, and write the page of performance."""
    performance.take_over(files or sorted(performance.MEASURED.glob("*.csv")))


@app.command("figures")
def print_figures() -> None:
    """Print the lines of each room, and what the last run of the tests took."""
    typer.echo(figures.text())


def _built(version: str, private: str) -> Release:
    folder = RELEASES / version
    if not folder.is_dir():
        raise ReleaseError(f"there is no {folder}: run `make release VERSION={version} KEY={private}`")
    return Release(folder, version)


if __name__ == "__main__":
    main()
