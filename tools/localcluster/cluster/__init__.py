"""A cluster from its start to its removal: `cluster` has the operations.

`controlplane` starts its components, `kwok` simulates nodes, `settings` is what a cluster was made with, and `removal`
ends what is left of one.
"""
