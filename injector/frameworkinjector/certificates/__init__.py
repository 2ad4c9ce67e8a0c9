"""The certificates of the webhook: issued, renewed, kept in a Secret or read from files, and served."""
