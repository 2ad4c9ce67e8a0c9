"""Container images, built from packages, wheels and jars that are pinned."""
