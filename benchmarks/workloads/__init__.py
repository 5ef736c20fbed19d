"""The workloads, a module per family."""
