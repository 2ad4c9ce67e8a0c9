"""Container images, from packages, wheels and jars that are pinned.

`images` builds from Dockerfiles, which `dockerfiles` reads, by `buildah`. `base` chooses what they are built on:
Docker's image, or one that `debian` makes (`baselock` is the lock of a release's). `wheels` and `jars` fetch what a
build needs, and `archive` writes an image as a file.
"""
