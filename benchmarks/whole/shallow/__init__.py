"""Shallow water on a periodic square, by finite volumes with limited slopes and a Runge-Kutta method of two stages."""
