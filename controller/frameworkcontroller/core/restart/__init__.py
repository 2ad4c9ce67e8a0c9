"""Gangs that restart in their Pods: what the annotations ask for, and the epochs of the gang."""
