"""A small Kubernetes client: credentials, requests, informers, leader election. It knows no Frameworks."""
