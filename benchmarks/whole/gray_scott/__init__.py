"""Two reacting and diffusing substances (Gray and Scott's model) on a periodic square."""
