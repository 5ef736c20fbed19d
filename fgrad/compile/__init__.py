"""From a jaxpr to a running program: passes, lowering, fusion, buffer planning, the eager path."""
