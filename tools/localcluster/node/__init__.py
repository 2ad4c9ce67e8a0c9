"""One real node: `node` starts kubelet, kube-proxy and CoreDNS, `containerd` runs the containers.

`namespaces` keeps it apart from the machine, and `network` connects both.
"""
