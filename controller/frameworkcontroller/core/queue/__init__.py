"""Queues of Kueue: what a Framework asks of one, what it is given, and what Kueue is told (docs/queues.md).

`pod_sets` and `admission` translate; `protocol` says what the Workload says next. All are functions of values.
"""
