"""What is made from the sources: tables of pages, manifests, the schema of the values, a preset's first files."""
