"""Code of machine instructions: guards of arguments, and launches."""
