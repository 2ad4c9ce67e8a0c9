"""Pod templates and Pods as bytes: what a template says (`facts`), the Pods made of it, and `snapshots`.

`template` fills placeholders such as `{{FC_TASK_INDEX}}`, and adds labels, annotations and variables.
"""
