"""A cluster from its start to its removal: control plane, simulated nodes, its settings, its remains."""
