"""What is wrong with a Framework, found without a cluster.

`schema` checks what the API server would refuse: the CRD's schema, unknown fields, and its rules. `template` checks the
Pod templates, `gang` what the injector and the barrier would say of the roles together. `lint` is all of them.
"""
