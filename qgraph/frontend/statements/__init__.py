"""Statements of a kernel to tasks and control flow of a Program."""
