"""The chart, rendered by the real helm without a cluster."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from frameworkcontroller.engine.settings import FILE_NAME, default_config, read_settings
from frameworkrelease import chart, cut, plain, registry
from frameworkrelease.chart import CHART
from frameworkrelease.commands import ReleaseError
from tests.release.objects import identities, kinds, only, pod_of
from tests.release.values import DIGEST, MATRIX, Values, documented
from tests.support.monitoring import GROUPS, MODEL
from tests.support.pages import blocks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.release.conftest import Manifests

    Render = Callable[..., Manifests]

pytestmark = pytest.mark.chart
ONE = "one namespace"


def test_helm_finds_nothing_to_complain_about() -> None:
    assert "0 chart(s) failed" in chart.helm("lint", "--strict", str(CHART))


def test_the_plain_manifests_are_those_of_the_chart() -> None:
    assert plain.FILE.read_text() == plain.manifests(), "run `make manifests`"
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

REFUSED: dict[str, tuple[Values, str]] = {
    "a key that is not known": ({"controler": {}}, "controler"),
    "a key of a program": ({"controller": {"replica": 3}}, "replica"),
    "a key of an image": ({"barrier": {"image": {"sha": "x"}}}, "sha"),
    "a key of a toleration": ({"injector": {"tolerations": [{"keys": "a"}]}}, "keys"),
    "a setting of the controller": ({"controller": {"config": {"workers": 3}}}, "workers"),
    "a setting in a group": ({"controller": {"config": {"leaderElection": {"leaseDuration": 3}}}}, "leaseDuration"),
    "a setting that follows from another value": ({"controller": {"config": {"namespace": "a"}}}, "namespace"),
    "a setting beyond its limit": ({"controller": {"config": {"concurrentRequests": 5000}}}, "concurrentRequests"),
    "a text for a number": ({"controller": {"replicas": "two"}}, "replicas"),
    "another way of injection": ({"injection": "policy"}, "injection"),
    "a digest of another kind": ({"controller": {"image": {"digest": "md5:00"}}}, "digest"),
    "a namespace with a capital": ({"watchNamespaces": ["Team"]}, "watchNamespaces"),
    "two namespaces": ({"watchNamespaces": ["a", "b"]}, "Install the chart once for each namespace"),
    "a preset with a dot in its name": ({"barrier": {"presets": {"a.toml": ""}}}, "a.toml"),
    "two replicas without an election": (
        {"controller": {"config": {"leaderElection": {"enabled": False}}}},
        "Set controller.replicas=1",
    ),
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


GUIDE = (chart.REPOSITORY / "docs" / "operate" / "install.md").read_text()
EXAMPLES = [
    block.text
    for page in ("docs/operate/install.md", "docs/operate/hardening.md")
    for block in blocks(page)
    if block.kind == "yaml" and not block.file
]


@pytest.mark.parametrize("text", EXAMPLES)
def test_the_values_of_the_documentation_are_accepted(render: Render, text: str) -> None:
    assert render(yaml.safe_load(text)) != render()


def test_the_error_of_the_documentation_is_that_of_helm(render: Render) -> None:
    shown = "- at '/controller': additional properties 'replica' not allowed"
    assert shown in GUIDE
    with pytest.raises(ReleaseError, match=shown):
        render({"controller": {"replica": 3}})


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
    """A copy of values without one of them."""
    left = copy.deepcopy(values)
    *groups, last = path.split(".")
    place = left
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
    assert idle == []


# --- what is rendered ------------------------------------------------------------------------------------------------


def test_without_values_the_configuration_is_the_shipped_file(render: Render) -> None:
    assert only(render(), "ConfigMap")["data"] == {FILE_NAME: default_config()}


def test_settings_of_the_controller_reach_its_file_as_they_are(render: Render) -> None:
    case = "settings of the controller"
    settings = read_settings(only(render(case), "ConfigMap")["data"][FILE_NAME])
    assert settings.kube_client_qps == 20.5
    assert settings.framework_completed_retain_sec == 2_592_000
    assert not settings.large_framework_compression
    assert (settings.leader_election.lease_duration_sec, settings.leader_election.renew_deadline_sec) == (30, 20)
    assert [spec.code for spec in settings.pod_failure_spec] == [1000]


def test_a_file_of_microsofts_controller_becomes_values_as_it_is(render: Render) -> None:
    file = chart.REPOSITORY / "tests" / "controller" / "engine" / "microsoft.yaml"
    written = yaml.safe_load(file.read_text())
    made = only(render({"controller": {"config": written}}), "ConfigMap")["data"][FILE_NAME]
    assert yaml.safe_load(made) == written
    assert len(read_settings(made).pod_failure_spec) == len(written["podFailureSpec"])


def test_settings_without_codes_keep_the_shipped_codes(render: Render) -> None:
    values = {"controller": {"config": {"grantRosterAccess": False}}}
    settings = read_settings(only(render(values), "ConfigMap")["data"][FILE_NAME])
    assert not settings.grant_roster_access
    shipped = read_settings(default_config()).pod_failure_spec
    assert [spec.code for spec in settings.pod_failure_spec] == [spec.code for spec in shipped]


@pytest.mark.parametrize("values", [{"controller": {"config": {"concurrentRequests": 3}}}, ONE], ids=["file", "flag"])
def test_another_configuration_replaces_the_controllers_pods(render: Render, values: Values | str) -> None:
    def template(manifests: Manifests) -> Any:
        return only(manifests, "Deployment", "frameworkcontroller")["spec"]["template"]

    assert template(render()) != template(render(values))


def test_another_preset_replaces_the_injectors_pods(render: Render) -> None:
    def template(text: str) -> Any:
        manifests = render({"barrier": {"presets": {"mine": text}}})
        return only(manifests, "Deployment", "frameworkinjector")["spec"]["template"]["metadata"]

    assert template("place = 1") != template("place = 2")


def test_an_image_is_named_by_registry_repository_and_digest_everywhere(render: Render) -> None:
    manifests = render("images by digest")
    name = f"registry.example:5000/a/b@{DIGEST}"
    assert pod_of(manifests, "frameworkcontroller")["containers"][0]["image"] == name
    (injector,) = pod_of(manifests, "frameworkinjector")["containers"]
    assert injector["image"] == name
    assert f"--barrier-image={name}" in injector["args"]
    assert "docker.io" not in json.dumps(manifests)


def test_for_one_namespace_the_controller_has_no_permission_beyond_it(render: Render) -> None:
    manifests = render(ONE)
    bound = [one for one in manifests if one["kind"].endswith("Binding") and "roleRef" in one]
    of_the_controller = [one for one in bound if one["subjects"][0]["name"] == "frameworkcontroller"]
    assert {(one["kind"], one["metadata"]["namespace"]) for one in of_the_controller} == {
        ("RoleBinding", "team-a"),
        ("RoleBinding", chart.NAMESPACE),
    }
    role = next(one for one in manifests if one["kind"] == "Role" and one["metadata"]["namespace"] == "team-a")
    everywhere = only(render(), "ClusterRole", "frameworkcontroller")
    assert role["rules"] == everywhere["rules"]
    assert "--namespace=team-a" in pod_of(manifests, "frameworkcontroller")["containers"][0]["args"]
    selector = only(manifests, "MutatingWebhookConfiguration")["webhooks"][0]["namespaceSelector"]
    assert selector["matchExpressions"] == [
        {"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["team-a"]}
    ]


def test_one_namespace_can_be_installed_without_any_object_of_the_cluster(render: Render) -> None:
    manifests = render("one namespace and nothing of the cluster")
    assert all(one["metadata"].get("namespace") in {"team-a", chart.NAMESPACE} for one in manifests)
    assert not any(kind.startswith("Cluster") for kind in kinds(manifests))


def test_two_releases_have_no_object_in_common(render: Render) -> None:
    first = render({"watchNamespaces": ["team-a"]}, release="a", namespace="a-system")
    second = render({"watchNamespaces": ["team-b"], "crds": {"enabled": False}}, release="b", namespace="b-system")
    assert identities(first) & identities(second) == set()
    lease = read_settings(only(first, "ConfigMap")["data"][FILE_NAME]).leader_election.name
    assert lease == "a-frameworkcontroller"
    assert {name for kind, _, name in identities(first) if kind == "Deployment"} == {lease, "a-frameworkinjector"}


def test_the_name_of_a_service_stays_a_label_however_long_the_release_is(render: Render) -> None:
    manifests = render("monitors of Prometheus", release="r" * 53)
    assert all(len(name) <= 63 for kind, _, name in identities(manifests) if kind in {"Service", "Deployment"})


def test_no_injector_means_that_nothing_calls_it(render: Render) -> None:
    assert "injector" not in json.dumps(render("no injector"))


def test_alerts_of_the_injector_are_only_where_it_is(render: Render) -> None:
    def groups(**values: Any) -> list[str]:
        made = render({"monitoring": {"prometheusRule": {"enabled": True}}, **values})
        return [group["name"] for group in only(made, "PrometheusRule")["spec"]["groups"]]

    assert groups() == [group["name"] for group in GROUPS]
    assert groups(injection="none") == [name for name in groups() if name != "frameworkinjector"]


def test_the_dashboard_and_the_alerts_are_those_of_the_files(render: Render) -> None:
    manifests = render("monitors of Prometheus")
    (made,) = only(manifests, "ConfigMap", "frameworkcontroller-dashboard")["data"].values()
    assert json.loads(made) == MODEL
    assert only(manifests, "PrometheusRule")["spec"] == {"groups": GROUPS}


@pytest.mark.parametrize("case", ["a certificate of cert-manager", "an issuer of cert-manager"])
def test_with_cert_manager_the_injector_has_no_permission_for_its_certificate(render: Render, case: str) -> None:
    manifests = render(case)
    assert "Secret" not in kinds(manifests)
    assert {one["metadata"]["name"] for one in manifests if one["kind"] == "ClusterRoleBinding"} == {
        "frameworkcontroller"
    }
    certificate, configuration = only(manifests, "Certificate"), only(manifests, "MutatingWebhookConfiguration")
    assert f"frameworkinjector.{chart.NAMESPACE}.svc" in certificate["spec"]["dnsNames"]
    assert configuration["metadata"]["annotations"] == {
        "cert-manager.io/inject-ca-from": f"{chart.NAMESPACE}/frameworkinjector"
    }
    mounted = [volume for volume in pod_of(manifests, "frameworkinjector")["volumes"] if "secret" in volume]
    assert [volume["secret"]["secretName"] for volume in mounted] == [certificate["spec"]["secretName"]]
    assert ("Issuer" in kinds(manifests)) == (case == "a certificate of cert-manager")


def test_a_certificate_in_a_secret_leaves_the_injector_without_any_permission(render: Render) -> None:
    manifests = render("a certificate in a Secret")
    subjects = [one["subjects"][0]["name"] for one in manifests if one["kind"].endswith("Binding") and "roleRef" in one]
    assert set(subjects) == {"frameworkcontroller"}
    assert only(manifests, "MutatingWebhookConfiguration")["webhooks"][0]["clientConfig"]["caBundle"]


def test_one_replica_has_no_budget_that_would_block_its_node(render: Render) -> None:
    assert "PodDisruptionBudget" not in kinds(render("one replica"))


def test_the_definition_stays_when_the_release_goes_unless_told_otherwise(render: Render) -> None:
    kept = only(render(), "CustomResourceDefinition")["metadata"]["annotations"]
    assert kept == {"helm.sh/resource-policy": "keep"}
    assert "annotations" not in only(render({"crds": {"keep": False}}), "CustomResourceDefinition")["metadata"]
    assert "CustomResourceDefinition" not in kinds(render({"crds": {"enabled": False}}))


def test_the_definition_is_that_of_the_code(render: Render) -> None:
    from frameworkcontroller.api import crd

    assert only(render(), "CustomResourceDefinition")["spec"] == crd.crd()["spec"]


def test_a_monitor_selects_the_pods_and_the_port_that_there_are(render: Render) -> None:
    manifests = render("monitors of Prometheus")
    for kind in ("PodMonitor", "ServiceMonitor"):
        assert {one["metadata"]["name"] for one in manifests if one["kind"] == kind} == {
            "frameworkcontroller",
            "frameworkinjector",
        }
    for name in ("frameworkcontroller", "frameworkinjector"):
        monitor = only(manifests, "PodMonitor", name)
        labels = only(manifests, "Deployment", name)["spec"]["template"]["metadata"]["labels"]
        assert monitor["spec"]["selector"]["matchLabels"].items() <= labels.items()
        assert monitor["metadata"]["labels"]["release"] == "prometheus"
        service, scraper = only(manifests, "Service", f"{name}-metrics"), only(manifests, "ServiceMonitor", name)
        assert scraper["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
        ports = {port["name"] for port in pod_of(manifests, name)["containers"][0]["ports"]}
        assert {service["spec"]["ports"][0]["targetPort"], monitor["spec"]["podMetricsEndpoints"][0]["port"]} <= ports
    webhook = only(manifests, "Service", "frameworkinjector")["metadata"]["labels"]
    assert not scraper["spec"]["selector"]["matchLabels"].items() <= webhook.items()
