"""Pod templates and Pods as bytes: what a template says, the Pods made of it, and snapshots of what was there."""
