"""Arguments of a call: arrays of every library, their guards, their copies, their streams."""
