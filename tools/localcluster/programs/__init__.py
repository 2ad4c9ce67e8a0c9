"""The programs of a cluster, and those that install into it.

`catalogue` says which ones there are and which version of Kubernetes is the default; each version that can be built is
a folder of `go/`. `binaries` finds a program, else `downloads` fetches it or `gobuild` builds it.
"""
