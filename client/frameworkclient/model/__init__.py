"""Manifests as people write them: Frameworks and Pod templates made, changed, read and printed."""
