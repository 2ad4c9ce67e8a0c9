"""What programs find in their Pods on a real node: values of users and presets by each way, files, resources."""

import pytest

from frameworkbarrier.presets import model as presets
from frameworkinjector import __version__
from frameworkinjector.offline.render import rendered
from frameworkinjector.review.config import Config, EnvFiles
from localcluster import Cluster
from localcluster.client import Json, RawClient
from localcluster.images import images
from testkit.frameworks import Frameworks, framework, role
from testkit.waiting import eventually
from tests.barrier.cluster import grant
from tests.e2e.pods import PREFIX, REPORT, all_run, pod, printed, python, reports
from tests.support.waiting import becomes

pytestmark = pytest.mark.node

PRINT = "import json, os, time; print(json.dumps(dict(os.environ))); time.sleep({})"
NAMES = tuple(presets.variables(["pytorch"]))


def template(env: str) -> Json:
    """Return a Pod with a container that has values of its own, and one that has none."""
    made = pod(python(PRINT.format(600)), preset="pytorch", env=env)
    (main,) = made["spec"]["containers"]
    plain = {**main, "name": "plain"}
    main["env"] = [{"name": "WORLD_SIZE", "value": "77"}, {"name": "PET_NNODES", "value": ""}]
    main["envFrom"] = [
        {"configMapRef": {"name": "defaults"}},
        {"prefix": "PET_", "secretRef": {"name": "keys"}},
        {"configMapRef": {"name": "absent", "optional": True}},
    ]
    made["spec"]["containers"].append(plain)
    return made


@pytest.fixture
def sources(raw: RawClient, namespace: str) -> None:
    """What `envFrom` refers to, and a Service that gives each container MASTER_PORT=tcp://..."""
    core = f"/api/v1/namespaces/{namespace}"
    raw.create(f"{core}/configmaps", {"metadata": {"name": "defaults"}, "data": {"MASTER_PORT": "1", "OTHER": "2"}})
    # The last source that has a key counts, also by its prefix.
    secret = {"metadata": {"name": "keys"}, "stringData": {"MASTER_PORT": "4", "NODE_RANK": "5"}}
    raw.create(f"{core}/secrets", secret)
    raw.create(f"{core}/services", {"metadata": {"name": "master"}, "spec": {"ports": [{"port": 80}]}})


def environment(cluster: Cluster, namespace: str, name: str, container: str) -> dict[str, str]:
    return eventually(lambda: printed(cluster, namespace, name, container)[0], 180, 0.5)


@pytest.mark.usefixtures("sources")
def test_the_users_value_wins_and_the_rest_is_that_of_the_preset(
    cluster: Cluster, raw: RawClient, frameworks: Frameworks
) -> None:
    """Also as `render` prints it for an older cluster: `auto` wraps where there is no `fileKeyRef`."""
    namespace = frameworks.namespace
    for way in ("file", "wrap", "auto"):
        document = framework(namespace, way, role("worker", 2, pod=template(way)))
        if way == "auto":
            config = Config(version=__version__, barrier_image=images.reference("barrier"))
            document, _ = rendered(document, config, EnvFiles.NONE)
        raw.create(frameworks.path, document)
    for way in ("file", "wrap", "auto"):
        check_environment(way, cluster, frameworks)


def check_environment(way: str, cluster: Cluster, frameworks: Frameworks) -> None:
    main = environment(cluster, frameworks.namespace, f"{way}-worker-1", "main")
    plain = environment(cluster, frameworks.namespace, f"{way}-worker-1", "plain")
    address = frameworks.pods()[f"{way}-worker-0"]["status"]["podIP"]
    # By `wrap` the lists come, too.
    lists = {"FB_WORKER_IPS", "FB_WORKER_ADDRESSES", "FB_WORKER_PORT"} if way == "wrap" else set()
    for found in (main, plain):
        assert {name for name in found if name.startswith("FB_")} - {"FB_VARIABLES"} == lists
    expected = {
        "MASTER_ADDR": address,
        "MASTER_PORT": "29500",
        "WORLD_SIZE": "2",
        "RANK": "1",
        "PET_NNODES": "2",
        "PET_NODE_RANK": "1",
        "PET_NPROC_PER_NODE": "1",
        "PET_MASTER_ADDR": address,
        "PET_MASTER_PORT": "29500",
        "PET_RDZV_ENDPOINT": f"{address}:29500",
        "NODE_RANK": "1",
        "PET_RDZV_BACKEND": "static",
        "PET_RDZV_ID": frameworks.status(way)["attemptStatus"]["instanceUID"],
        "GLOO_SOCKET_IFNAME": "eth0",
        "NCCL_SOCKET_IFNAME": "=eth0",
    }
    assert {name: plain[name] for name in NAMES if name in plain} == expected
    own = {"WORLD_SIZE": "77", "PET_NNODES": "", "MASTER_PORT": "1", "PET_MASTER_PORT": "4", "PET_NODE_RANK": "5"}
    assert {name: main[name] for name in NAMES if name in main} == {**expected, **own}
    assert main["OTHER"] == "2"


def test_an_indexed_job_needs_roles_only(cluster: Cluster, raw: RawClient, installed: None, namespace: str) -> None:
    grant(raw, namespace, "", "pods", "list", "watch")
    made = pod(python(PRINT.format(0)), preset="pytorch", roles="worker=2")
    spec = {"completionMode": "Indexed", "completions": 2, "parallelism": 2, "backoffLimit": 0, "template": made}
    jobs = f"/apis/batch/v1/namespaces/{namespace}/jobs"
    raw.create(jobs, {"metadata": {"name": "train"}, "spec": spec})
    becomes(lambda: raw.get(f"{jobs}/train")["status"]["succeeded"], 2, 180, 0.5)
    found = raw.get(f"/api/v1/namespaces/{namespace}/pods")["items"]
    ranks = set()
    for one in found:
        seen = environment(cluster, namespace, one["metadata"]["name"], "main")
        assert seen["RANK"] == one["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"]
        assert PREFIX + "status" in one["metadata"]["annotations"]
        ranks.add((seen["RANK"], seen["WORLD_SIZE"]))
    assert ranks == {("0", "2"), ("1", "2")}


FOLDER = "/srv/gang"
LOOKS = """
import os
report({
    "TF_CONFIG": sorted(json.loads(os.environ["TF_CONFIG"])["cluster"]),
    "hostfile": os.environ["HYDRA_HOST_FILE"],
    "hosts": open(os.environ["HYDRA_HOST_FILE"]).read(),
    "mnt": os.listdir("/mnt"),
    "files": sorted(os.listdir("/srv/gang")),
    "peers": "worker-0" in open("/etc/hosts").read(),
})
"""


def with_volume_at_mnt(**annotations: str) -> Json:
    template = pod(python(REPORT + LOOKS), preset="tensorflow,mpi", output_dir=FOLDER, **annotations)
    template["spec"]["volumes"] = [{"name": "data", "emptyDir": {}}]
    template["spec"]["containers"][0]["volumeMounts"] = [{"name": "data", "mountPath": "/mnt", "readOnly": True}]
    return template


def test_a_pod_with_a_volume_at_mnt_has_the_files_in_another_folder(frameworks: Frameworks) -> None:
    wrapped = with_volume_at_mnt(env="wrap", mode="sidecar")
    frameworks.create("fw", role("worker", 1, pod=with_volume_at_mnt()), role("ps", 1, pod=wrapped))
    reported = reports(frameworks)
    assert set(reported) == {"worker-0", "ps-0"}
    for seen in reported.values():
        assert (seen["TF_CONFIG"], seen["mnt"], seen["peers"]) == (["ps", "worker"], [], True)
        assert seen["hostfile"] == f"{FOLDER}/hostfile.mpich"
        assert seen["hosts"]
        assert {"env", "generation", "hosts", "injector.sh", "run"} <= set(seen["files"])


def test_guaranteed_pods_run_as_such(frameworks: Frameworks) -> None:
    amounts = {"cpu": "100m", "memory": "64Mi"}
    templates = {mode: pod(["sleep", "600"], mode=mode) for mode in ("init", "sidecar")}
    for template in templates.values():
        template["spec"]["containers"][0]["resources"] = {"requests": amounts, "limits": amounts}
    frameworks.create("fw", *(role(mode, 1, pod=template) for mode, template in templates.items()))
    all_run(frameworks, 2)
    assert [each["status"]["qosClass"] for each in frameworks.pods().values()] == ["Guaranteed"] * 2
