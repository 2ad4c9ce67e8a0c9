"""Leader election by a Lease, with its periods by default (`election`); `lease_lock` writes the Lease."""
