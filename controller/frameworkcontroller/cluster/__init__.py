"""Kubernetes I/O: credentials, one HTTP client, informers. Knows requests and objects, nothing of Frameworks' life."""
