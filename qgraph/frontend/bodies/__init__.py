"""Bodies of loops as generated code has them: names resolved, reductions found, neighbouring loops joined."""
