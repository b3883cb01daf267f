"""Numba as the compiler: functions to machine code, PTX, or a simulation."""
