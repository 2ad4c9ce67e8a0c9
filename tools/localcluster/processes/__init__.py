"""Processes of this machine, and what stands around them.

`supervisor` starts the components of a cluster and waits until they work, for which `health` asks them. `process` finds
and ends what runs, `ports` finds free ports and networks, and `logs` the lines that say why something did not start.
"""
