"""The controller beside a bare loop that does the same to Pods, on simulated nodes.

`shapes` says which loads there are, `runs` has one run of each kind, `bare` that of the loop, `scene` the cluster, and
`observer` sees when Pods start.
"""
