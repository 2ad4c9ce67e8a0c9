"""`make matrix`: runs the tests on versions of Kubernetes, and writes the page of supported versions.

`docs/operate/support.csv` keeps the last run of each version and suite, a row for each result of its tests. The tables
of `docs/operate/releases.md` are made from it; `make manifests` makes them again, and a test compares.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Final
from xml.etree import ElementTree as ET

from frameworkrelease.chart import REPOSITORY
from frameworkrelease.commands import ReleaseError
from frameworkrelease.generate import pages
from frameworkrelease.generate.performance import Row, origin, read, write
from localcluster.programs import binaries
from localcluster.programs.catalogue import BUILDABLE, minor_of, parse_version, pinned_version

FILE: Final = REPOSITORY / "docs" / "operate" / "support.csv"
PAGE: Final = REPOSITORY / "docs" / "operate" / "releases.md"
NOT_APPLICABLE: Final = "not applicable"
"""The property of a test in the report of pytest that needs a newer Kubernetes; its value is the reason."""


API_SERVER: Final = "API server"
END_TO_END: Final = "end to end"
SELECTION: Final = {API_SERVER: "apiserver and not long", END_TO_END: "node and not long"}
"""What pytest selects of the tests against a cluster: the same as `make test-apiserver` and `make test-e2e`."""
_CONTROL_PLANE: Final = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl", "etcd")
_PROGRAMS: Final = {
    API_SERVER: (*_CONTROL_PLANE, "kwok"),
    END_TO_END: (*_CONTROL_PLANE, "kubelet", "kube-proxy", "coredns"),
}
# Exit codes of pytest: all tests have passed, or some have failed.
_COMPLETE: Final = (0, 1)


def run_all(versions: Iterable[str], arguments: Sequence[str]) -> bool:
    """Run what the matrix has of some versions, and write what came of each before the next one starts.

    The versions are complete or minor ones; pytest gets more arguments. Return whether every test passed or is not
    applicable.

    Raises:
        SetupError: There is no such version.
        BinaryError: A program cannot be built.
        ReleaseError: pytest did not get to its end.
    """
    clean = True
    for version, suite in planned(map(parse_version, versions)):
        print(f"\n=== Kubernetes {version}, {suite}", flush=True)
        found = run(suite, version, arguments)
        clean = clean and all(one["result"] in {"passed", NOT_APPLICABLE} for one in found)
        write(replaced(read(FILE), found), FILE)
        PAGE.write_text(page(PAGE.read_text(), read(FILE)))
    print("", *tables(read(FILE)), sep="\n")
    return clean


def planned(versions: Iterable[str] = BUILDABLE) -> Iterator[tuple[str, str]]:
    """Yield what the matrix runs, the newest version first: end to end only on that of CI."""
    for version in sorted(set(versions), key=minor_of, reverse=True):
        yield version, API_SERVER
        if version == pinned_version("kubernetes"):
            yield version, END_TO_END


def run(suite: str, kubernetes: str, arguments: Sequence[str], environ: Mapping[str, str] = os.environ) -> list[Row]:
    """Build what is missing, run the tests, and return what came of it; see `run_all`."""
    for program in _PROGRAMS[suite]:
        binaries.find(program, kubernetes=kubernetes, environ=environ)
    about = {"Kubernetes": kubernetes, "suite": suite, "project": metadata.version("frameworkcontroller")}
    about |= origin(kubernetes, (FILE, PAGE))
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        pytest = Path(sys.executable).with_name("pytest")
        command = [str(pytest), "-m", SELECTION[suite], f"--junitxml={report}", *arguments, "tests"]
        # A test that this machine cannot run is a failure, and none is left out because its paths have not changed.
        all_of_it = {"KUBERNETES": kubernetes, "FRAMEWORKCONTROLLER_REQUIRE_CLUSTER": "1", "EVERYTHING": "1"}
        code = subprocess.run(command, cwd=REPOSITORY, env={**environ, **all_of_it}, check=False).returncode
        if code not in _COMPLETE:
            raise ReleaseError(f"`{' '.join(command)}` ended with {code} on Kubernetes {kubernetes}: see above")
        found = results(report.read_text())
    about["minutes"] = str(round((time.monotonic() - start) / 60))
    return [{**about, **one} for one in found]


def results(report: str) -> list[Row]:
    """Return what a report of pytest says, a row for each result: its word, what it is about, and how many had it.

    It is about the name of a test that failed, also in its set-up or tear-down; about the reason of those that need a
    newer Kubernetes, or were skipped because the machine lacks something.
    """
    found: dict[str, tuple[str, str]] = {}
    for case in ET.fromstring(report).iter("testcase"):  # noqa: S314 -- pytest has just written it
        name, skip = f"{case.get('classname')}::{case.get('name')}", case.find("skipped")
        reason = case.find(f"./properties/property[@name='{NOT_APPLICABLE}']")
        if case.find("failure") is not None or case.find("error") is not None:
            # If its tear-down fails, too, it stands there twice.
            found[name] = ("failed", name)
        elif skip is None:
            found.setdefault(name, ("passed", ""))
        elif reason is None:
            found[name] = ("skipped", skip.get("message", ""))
        else:
            found[name] = (NOT_APPLICABLE, reason.get("value", ""))
    numbers = sorted(Counter(found.values()).items())
    return [{"result": word, "of": what, "tests": str(number)} for (word, what), number in numbers]


def replaced(kept: Iterable[Row], new: Sequence[Row]) -> list[Row]:
    """Return the rows with a new run in the place of the last of its kind, the newest version of Kubernetes first."""
    others = [one for one in kept if _kind(one) != _kind(new[0])]
    return sorted((*others, *new), key=lambda one: (-minor_of(one["Kubernetes"]), one["suite"]))


def page(written: str, kept: Iterable[Row]) -> str:
    """Return the page, which has the markers, with its tables renewed."""
    return pages.renewed(written, {"runs": tables(kept)})


def tables(kept: Iterable[Row]) -> Iterator[str]:
    """Yield the lines: what came of each version; then what was not applicable, has failed, or was left out."""
    runs: dict[tuple[str, str], list[Row]] = {}
    for one in kept:
        runs.setdefault(_kind(one), []).append(one)
    rows = ((*kind, *(_cells(runs[kind]) if kind in runs else ("not run", "", ""))) for kind in planned())
    yield from pages.table(("Kubernetes", "tests", "result", "on", "of"), rows)
    left_out = [one for run in runs.values() for one in run if one["result"] == NOT_APPLICABLE]
    if left_out:
        reasons = sorted((one.get("of", ""), one["Kubernetes"], one["tests"]) for one in left_out)
        yield from ("", *pages.table(("not applicable", "on", "tests"), reasons))
    for kind, run in runs.items():
        named = {word: [one.get("of", "") for one in run if one["result"] == word] for word in ("failed", "skipped")}
        for about, names in named.items():
            if names:
                yield from ("", f"{', '.join(kind)}, {about}:", "", *(f"- `{name}`" for name in names))


def _kind(row: Row) -> tuple[str, str]:
    return row["Kubernetes"], row["suite"]


def _cells(run: Sequence[Row]) -> tuple[str, str, str]:
    # That none failed is said, too.
    found = Counter({"passed": 0, "failed": 0})
    for one in run:
        found[one["result"]] += int(one["tests"])
    words = ", ".join(
        f"{found[word]} {word}" for word in ("passed", "failed", NOT_APPLICABLE, "skipped") if word in found
    )
    about = run[0]
    return words, about["date"], f"{about['project']}, `{about['commit']}`"
