"""Somebody submits a TorchJob and looks at nothing else; the operator makes a Framework of it."""

from frameworkdemo.errors import DemoError
from frameworkdemo.examples.example import Example

JOB = "torchjob/mnist"


def steps(example: Example) -> None:
    """Start the operator, submit a TorchJob, grow it, wait for its end, and delete it."""
    example.apply()
    example.kubectl("wait", "--for=condition=Available", "deployment/torchjob", "--timeout=600s")
    example.kubectl("apply", "--filename=-", stdin=(example.folder / "torchjob.yaml").read_text())
    example.until("Framework mnist", lambda: example.get("framework/mnist"))
    example.follow("mnist")
    for index in range(2):
        example.logged(f"mnist-worker-{index}", f"PET_NNODES=2 PET_NODE_RANK={index} PET_NPROC_PER_NODE=4")
    example.kubectl("patch", JOB, "--type=merge", '--patch={"spec":{"workers":3}}')
    example.logged("mnist-worker-2", "PET_NNODES=3 PET_NODE_RANK=2 PET_NPROC_PER_NODE=4")
    for index in range(3):
        example.kubectl("exec", f"mnist-worker-{index}", "--container=worker", "--", "touch", "/tmp/good-enough")
    example.ends("Succeeded", framework="mnist")
    example.until("the end in the status of the TorchJob", lambda: state(example) == "Completed")
    for line in example.kubectl("get", JOB).splitlines():
        example.say(line)
    if example.get(JOB)["status"]["result"] != "Succeeded":
        raise DemoError("the TorchJob has another result than its Framework")
    example.kubectl("delete", JOB, "--cascade=foreground", "--timeout=300s")
    if example.get("framework/mnist") is not None:
        raise DemoError("the Framework was left behind")


def state(example: Example) -> object:
    """Return the state in the status of the TorchJob."""
    return (example.get(JOB).get("status") or {}).get("state")
