"""What raises in Python and would not on a device: division by zero, negative powers, conditions, mixed signs."""
