"""One real node: containerd, kubelet and kube-proxy in namespaces of their own, and its network."""
