"""One review: from the bytes of a request to those of its answer. Pure, but for `own_presets`, which reads files.

`settings` are what the Pod asks for, `eligibility` says whether it gets a barrier, `plan` what it gets, `reasons` why
it gets none, and `patch` writes the plan.
"""
