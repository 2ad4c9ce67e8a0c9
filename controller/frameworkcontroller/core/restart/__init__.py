"""Gangs that restart in their Pods: what the `annotations` ask for, and the epochs of the gang.

`epoch` says in which epoch the start of a container counts, and what has ended one.
"""
