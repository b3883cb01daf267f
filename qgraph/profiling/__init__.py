"""``kernel.profile``: the time of each task and of each iteration of device loops. ``profile.py`` is all of it."""
