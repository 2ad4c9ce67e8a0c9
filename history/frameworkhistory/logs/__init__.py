"""The logs of containers, kept beyond their Pods.

`runs` says which logs a Pod has, `reader` reads one from the API server into a `tail` of bounded size, `storage` stores
it, `collector` has all of it done in time, and `kept` tells the controller which Pods may go.
"""
