"""Everything that touches memory.  KERNELS maps a kernel's name to its (run, check) addresses."""
