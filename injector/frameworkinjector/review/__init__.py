"""One review: from the bytes of a request to those of its answer. Pure, but for `own_presets`, which reads files.

`settings` are what the Pod asks for. `plan` leaves it alone, refuses it, or says what it gets; `eligibility` has what
that depends on: which of its containers are its author's, its platform, and the versions that fit. `resources` decides
what the barrier requests, `config` has the injector's defaults. `reasons` say why a Pod gets none, and `patch` writes
the plan.
"""
