"""``kernel.profile``: the time of each task and of each iteration of device loops. ``copy_bandwidth.py`` is what they are
compared with."""
