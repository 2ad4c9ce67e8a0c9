"""The chart, rendered by the real helm without a cluster, and the overlays of kustomize.

What the values of a case change in the manifests stands beside them in `cases`. After an intended change write it again
(`FRAMEWORKRELEASE_WRITE_GOLDENS=1 pytest tests/release/test_chart.py`) and read the difference.
"""

import difflib
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from frameworkcontroller.api import definition
from frameworkcontroller.engine.config.settings import FILE_NAME, default_config, read_settings
from frameworkrelease import chart, cut, registry
from frameworkrelease.chart import CHART
from frameworkrelease.commands import ReleaseError, run
from frameworkrelease.generate import plain
from testkit.frameworks import manifests_of
from tests.release.manifests import CASES, MATRIX, Manifests, Render, Values, by_identity, documented, only, pod_of
from tests.support.monitoring import GROUPS, MODEL
from tests.support.pages import PAGES, blocks

pytestmark = pytest.mark.chart
OVERLAYS = chart.REPOSITORY / "kustomize"
PROGRAMS = ("frameworkcontroller", "frameworkinjector")


def test_helm_finds_nothing_to_complain_about() -> None:
    assert "0 chart(s) failed" in chart.helm("lint", "--strict", str(CHART))


def test_the_plain_manifests_say_nothing_of_helm() -> None:
    for word in ("helm.sh", "managed-by", "# Source"):
        assert word not in plain.FILE.read_text()


# The registry is a package of the distribution, which only root can install.
@pytest.mark.node
def test_a_chart_that_was_pushed_and_pulled_renders_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in ("CACHE", "CONFIG", "DATA"):
        monkeypatch.setenv(f"HELM_{kind}_HOME", str(tmp_path / kind))
    chart.helm("package", str(CHART), f"--destination={tmp_path}")
    (archive,) = tmp_path.glob("frameworkcontroller-*.tgz")
    with registry.on_loopback(tmp_path) as address:
        chart.helm("push", str(archive), f"oci://{address}/charts", "--plain-http")
        archive.unlink()
        name, version = f"oci://{address}/charts/frameworkcontroller", f"--version={cut.current()}"
        chart.helm("pull", name, version, "--plain-http", f"--destination={tmp_path}")
    assert chart.rendered(chart=archive) == chart.rendered()


# --- values that are refused -----------------------------------------------------------------------------------------

SHOWN_ERROR = "- at '/controller': additional properties 'replica' not allowed"
REFUSED: dict[str, tuple[Values, str]] = {
    "a key that is not known": ({"controler": {}}, "controler"),
    # The guide shows the words of helm.
    "a key of a program": ({"controller": {"replica": 3}}, SHOWN_ERROR),
    "a key of an image": ({"barrier": {"image": {"sha": "x"}}}, "sha"),
    "a key of a toleration": ({"injector": {"tolerations": [{"keys": "a"}]}}, "keys"),
    "a setting of the controller": ({"controller": {"config": {"workers": 3}}}, "workers"),
    "a setting in a group": ({"controller": {"config": {"leaderElection": {"leaseDuration": 3}}}}, "leaseDuration"),
    "a setting that follows from another value": ({"controller": {"config": {"namespaces": ["a"]}}}, "namespaces"),
    "a setting beyond its limit": ({"controller": {"config": {"concurrentRequests": 5000}}}, "concurrentRequests"),
    "a text for a number": ({"controller": {"replicas": "two"}}, "replicas"),
    "another way of injection": ({"injection": "policy"}, "injection"),
    "digests of another version": ({"image": {"digestsOf": "0.1.0"}}, "the digests are of the images of 0.1.0"),
    "a digest of another kind": ({"controller": {"image": {"digest": "md5:00"}}}, "digest"),
    "a namespace with a capital": ({"watchNamespaces": ["Team"]}, "watchNamespaces"),
    "a preset with a dot in its name": ({"barrier": {"presets": {"a.toml": ""}}}, "a.toml"),
    "two replicas without an election": (
        {"controller": {"config": {"leaderElection": {"enabled": False}}}},
        "Set controller.replicas=1",
    ),
    "an archive with two databases": (
        {"history": {"enabled": True, "database": {"secret": "s", "url": "sqlite:////x"}}},
        "Set one of them",
    ),
    "an Ingress without a host": ({"history": {"enabled": True, "ingress": {"enabled": True}}}, "history.ingress.host"),
    "a size without a unit": ({"history": {"retention": {"size": "10"}}}, "/history/retention/size"),
    "a Secret without a name": ({"certificates": {"source": "secret"}}, "needs the name of your Secret"),
}


@pytest.mark.parametrize(("values", "words"), REFUSED.values(), ids=REFUSED)
def test_values_that_cannot_work_are_refused_with_their_place(render: Render, values: Values, words: str) -> None:
    with pytest.raises(ReleaseError) as refusal:
        render(values)
    assert words in str(refusal.value)


def test_an_older_kubernetes_is_refused_with_what_to_do(render: Render) -> None:
    with pytest.raises(ReleaseError, match=r"chart requires kubeVersion: >=1\.30\.0-0 which is incompatible with"):
        render(kubernetes="1.29.0")


KEYS = yaml.safe_load((CHART / "values.yaml").read_text()).keys()
EXAMPLES = [
    found
    for page in PAGES
    for block in blocks(page)
    if block.kind == "yaml"
    for found in yaml.safe_load_all(block.text)
    if isinstance(found, dict) and found.keys() <= KEYS
]


@pytest.mark.parametrize("values", EXAMPLES)
def test_the_values_of_the_documentation_are_accepted(render: Render, values: Values) -> None:
    assert render(values) != render()


def test_the_guide_shows_the_error_of_helm() -> None:
    assert SHOWN_ERROR in (chart.REPOSITORY / "docs" / "operate" / "install.md").read_text()


# --- each value does something ---------------------------------------------------------------------------------------


def leaves(group: Values, known: set[str], prefix: str = "") -> Iterator[str]:
    """The paths of documented values in a mapping."""
    for key, value in group.items():
        path = f"{prefix}{key}"
        if path in known:
            yield path
        else:
            yield from leaves(value, known, f"{path}.")


def without(values: Values, path: str) -> Values:
    """A copy of values without one of them, also of what a case says once for two programs."""
    left = place = json.loads(json.dumps(values))
    *groups, last = path.split(".")
    for group in groups:
        place = place[group]
    del place[last]
    return left


KNOWN = documented()
CASE_OF = {path: case for case, values in MATRIX.items() for path in leaves(values, KNOWN)}


def test_every_value_is_in_the_matrix() -> None:
    assert KNOWN - set(CASE_OF) == set()


def test_every_value_changes_the_manifests(render: Render) -> None:
    def outcome(values: Values) -> Manifests | str:
        try:
            return render(values)
        except ReleaseError as error:
            return str(error)

    idle = [path for path, case in CASE_OF.items() if outcome(MATRIX[case]) == outcome(without(MATRIX[case], path))]
    # It is only compared with the chart's own version, and is it here.
    assert idle == ["image.digestsOf"]


# --- what is rendered ------------------------------------------------------------------------------------------------

_SUM = re.compile(r"(checksum/\S+: )([0-9a-f]{64})")


def shown(manifests: Manifests) -> dict[str, str]:
    """Each object as text by its kind, namespace and name, without the version and what files hold."""
    texts = {}
    for (kind, namespace, name), one in by_identity(manifests).items():
        of_a_file = {"PrometheusRule": "spec", "ConfigMap": "data"}.get(kind, "")
        if kind == "PrometheusRule" or name.endswith("-dashboard") or default_config() in one.get("data", {}).values():
            text = yaml.safe_dump({**one, of_a_file: "that of the file"}, sort_keys=False, width=1000)
        else:
            text = yaml.safe_dump(one, sort_keys=False, width=1000)
        texts[f"{kind} {namespace}/{name}"] = text.replace(cut.current(), "VERSION")
    return texts


def differences(old: dict[str, str], new: dict[str, str]) -> Iterator[str]:
    """The lines that tell which objects differ from those by default, and once how, where they differ in the same way.

    They have neither numbers nor the values of checksums.
    """
    sums = {found[2] for text in old.values() for found in _SUM.finditer(text)}
    alike: dict[tuple[str, ...], list[str]] = {}

    def lines(text: str) -> list[str]:
        return _SUM.sub(lambda found: found[1] + ("CHECKSUM" if found[2] in sums else "ANOTHER"), text).splitlines()

    for name in sorted({*old, *new}):
        if name not in new:
            alike.setdefault(("removed",), []).append(name)
        elif old.get(name) != new[name]:
            _, _, *changed = difflib.unified_diff(lines(old.get(name, "")), lines(new[name]), n=1, lineterm="")
            how = ("@@" if line.startswith("@@") else line for line in changed)
            alike.setdefault(("changed" if name in old else "added", *how), []).append(name)
    for (word, *told), names in alike.items():
        yield from (f"{word}: {name}" for name in names)
        yield from told


@pytest.mark.parametrize("case", MATRIX)
def test_values_change_the_manifests_as_is_written_beside_them(render: Render, case: str) -> None:
    golden = CASES / f"{case.replace(' ', '_')}.diff"
    manifests = render(case)
    made = "".join(f"{line}\n" for line in differences(shown(render()), shown(manifests)))
    if os.environ.get("FRAMEWORKRELEASE_WRITE_GOLDENS"):
        golden.write_text(made)
    assert made == golden.read_text()
    # The controller can read what is written for it.
    assert [read_settings(one["data"][FILE_NAME]) for one in manifests if FILE_NAME in one.get("data", {})]


def test_every_golden_is_that_of_a_case() -> None:
    assert {file.stem for file in CASES.glob("*.diff")} == {file.stem for file in CASES.glob("*.yaml")}


@pytest.mark.parametrize(
    ("case", "word"),
    [
        ("no injector", "injector"),
        ("images by digest", "docker.io"),
        ("one replica", "kind: PodDisruptionBudget"),
        ("a certificate of cert-manager", "kind: Secret\n"),
        ("an issuer of cert-manager", "kind: Secret\n"),
        ("one namespace and nothing of the cluster", "kind: Cluster"),
        ("one namespace and nothing of the cluster", "kind: CustomResourceDefinition"),
    ],
)
def test_nothing_is_left_of_what_values_take_away(render: Render, case: str, word: str) -> None:
    assert word in yaml.safe_dump_all(render()) or word == "kind: Secret\n"
    assert word not in yaml.safe_dump_all(render(case))


def test_without_values_the_files_are_the_shipped_ones(render: Render) -> None:
    assert only(render(), "ConfigMap")["data"] == {FILE_NAME: default_config()}
    assert only(render(), "CustomResourceDefinition")["spec"] == definition.crd()["spec"]
    manifests = render("monitors of Prometheus")
    (made,) = only(manifests, "ConfigMap", "frameworkcontroller-dashboard")["data"].values()
    assert json.loads(made) == MODEL
    assert only(manifests, "PrometheusRule")["spec"] == {"groups": GROUPS}


def test_a_file_of_microsofts_controller_becomes_values_as_it_is_and_without_codes_there_are_the_shipped(
    render: Render,
) -> None:
    def file_of(config: Values) -> Any:
        return only(render({"controller": {"config": config}}), "ConfigMap")["data"][FILE_NAME]

    written = yaml.safe_load((chart.REPOSITORY / "tests/controller/engine/config/microsoft.yaml").read_text())
    made = file_of(written)
    assert yaml.safe_load(made) == written
    assert len(read_settings(made).pod_failure_spec) == len(written["podFailureSpec"])
    settings = read_settings(file_of({"grantRosterAccess": False}))
    assert not settings.grant_roster_access
    shipped = read_settings(default_config()).pod_failure_spec
    assert [spec.code for spec in settings.pod_failure_spec] == [spec.code for spec in shipped]


def test_another_text_of_a_preset_replaces_the_pods_of_the_injector(render: Render) -> None:
    presets = [{"barrier": {"presets": {"mine": f"at = {number}"}}} for number in (1, 2)]
    one, other = (only(render(values), "Deployment", PROGRAMS[1])["spec"]["template"] for values in presets)
    assert one != other


def test_two_releases_have_no_object_in_common(render: Render) -> None:
    archive = {"history": {"enabled": True}}
    first = render({"watchNamespaces": ["team-a"], **archive}, release="a", namespace="a-system")
    values = {"watchNamespaces": ["team-b"], "crds": {"enabled": False}, **archive}
    second = render(values, release="b", namespace="b-system")
    assert by_identity(first).keys() & by_identity(second).keys() == set()
    lease = read_settings(only(first, "ConfigMap")["data"][FILE_NAME]).leader_election.name
    assert lease == "a-frameworkcontroller"
    deployments = {name for kind, _, name in by_identity(first) if kind == "Deployment"}
    assert deployments == {lease, "a-frameworkhistory", "a-frameworkinjector"}


def test_the_name_of_a_service_stays_a_label_however_long_the_release_is(render: Render) -> None:
    manifests = render("monitors of Prometheus", release="r" * 53)
    assert all(len(name) <= 63 for kind, _, name in by_identity(manifests) if kind in {"Service", "Deployment"})


def test_alerts_of_a_program_are_only_where_it_is(render: Render) -> None:
    made = render({"monitoring": {"prometheusRule": {"enabled": True}}, "injection": "none"})
    groups = only(made, "PrometheusRule")["spec"]["groups"]
    assert groups == [one for one in GROUPS if one["name"] not in {"frameworkhistory", "frameworkinjector"}]


def test_the_controller_asks_the_archive_at_the_port_that_its_service_and_both_policies_open(render: Render) -> None:
    manifests = render({"history": {"enabled": True}}, release="a", namespace="a-system")
    (settings,) = (yaml.safe_load(one["data"][FILE_NAME]) for one in manifests if FILE_NAME in one.get("data", {}))
    assert settings["history"] == {"url": "http://a-frameworkhistory.a-system.svc:8081"}
    service, archive = (only(manifests, kind, "a-frameworkhistory")["spec"] for kind in ("Service", "Deployment"))
    (container,) = archive["template"]["spec"]["containers"]
    ports = {one["name"]: one["containerPort"] for one in container["ports"]}
    assert ports == {one["targetPort"]: one["port"] for one in service["ports"]} == {"page": 8080, "health": 8081}
    labels = {
        part: only(manifests, "Deployment", f"a-framework{part}")["spec"]["template"]["metadata"]["labels"]
        for part in ("controller", "history")
    }
    for kind, own, other in (("ingress", "history", "controller"), ("egress", "controller", "history")):
        rules = only(manifests, "NetworkPolicy", f"a-framework{own}")["spec"][kind]
        peer = "from" if kind == "ingress" else "to"
        chosen = [
            one["podSelector"]["matchLabels"]
            for rule in rules
            if rule["ports"] == [{"port": "health"}]
            for one in rule.get(peer, [])
            if "podSelector" in one
        ]
        assert [found.items() <= labels[other].items() for found in chosen] == [True]


@pytest.mark.parametrize("name", [*PROGRAMS, "frameworkhistory"])
def test_a_monitor_selects_the_pods_and_the_port_that_there_are(render: Render, name: str) -> None:
    manifests = render("monitors of Prometheus")
    pods, services = (only(manifests, f"{kind}Monitor", name)["spec"] for kind in ("Pod", "Service"))
    service, webhook = (only(manifests, "Service", one) for one in (f"{name}-metrics", "frameworkinjector"))
    labels = only(manifests, "Deployment", name)["spec"]["template"]["metadata"]["labels"]
    assert pods["selector"]["matchLabels"].items() <= labels.items()
    assert services["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert not services["selector"]["matchLabels"].items() <= webhook["metadata"]["labels"].items()
    (endpoint,) = pods["podMetricsEndpoints"]
    ports = {port["name"] for port in pod_of(manifests, name)["containers"][0]["ports"]}
    assert {service["spec"]["ports"][0]["targetPort"], endpoint["port"]} <= ports


# --- the base and the overlays of kustomize --------------------------------------------------------------------------


def built(folder: Path) -> Manifests:
    """What `kubectl apply -k` applies."""
    return [one for one in yaml.safe_load_all(run(chart.program("kubectl"), "kustomize", folder)) if one]


def test_the_base_of_kustomize_is_the_plain_manifests() -> None:
    assert by_identity(built(plain.FILE.parent)) == by_identity(list(yaml.safe_load_all(plain.FILE.read_text())))
    for program in PROGRAMS:
        assert {"Deployment", "ServiceAccount", "NetworkPolicy", "Namespace"} <= {
            one["kind"] for one in manifests_of(program)
        }


def test_the_overlay_for_one_namespace_is_the_chart_for_one_namespace(render: Render) -> None:
    overlay = by_identity(built(OVERLAYS / "namespaced"))
    expected = by_identity(render({"watchNamespaces": ["default"], "namespace": {"create": True}}))
    for one in (overlay, expected):
        pod = one["Deployment", chart.NAMESPACE, "frameworkcontroller"]["spec"]["template"]["spec"]
        pod["containers"][0]["args"].sort()
    # helm has labels of its own.
    assert {identity: {**one, "metadata": None} for identity, one in overlay.items()} == {
        identity: {**one, "metadata": None} for identity, one in expected.items()
    }


def test_the_overlay_for_high_availability_survives_the_loss_of_a_node() -> None:
    overlay = built(OVERLAYS / "high-availability")
    for name in PROGRAMS:
        assert only(overlay, "Deployment", name)["spec"]["replicas"] == 3
        assert only(overlay, "PodDisruptionBudget", name)["spec"]["minAvailable"] == 2
        (constraint,) = pod_of(overlay, name)["topologySpreadConstraints"]
        assert constraint["whenUnsatisfiable"] == "DoNotSchedule"
