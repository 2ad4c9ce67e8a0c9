"""One reconcile pass: it observes, decides on the Framework and on the Tasks that are dirty, and emits effects."""
