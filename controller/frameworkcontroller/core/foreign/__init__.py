"""Gangs of other controllers: what their Pods and owners say, who is there, and what their roster tells. Pure.

Pods of a JobSet, a Job, a LeaderWorkerSet or a StatefulSet that ask for the barrier get the roster that those of a
Framework get, and nothing else: retries and ends are their own controllers'.
"""
