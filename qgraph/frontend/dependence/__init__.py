"""Which elements each iteration of a loop touches, and whether the loop is parallel: its verdict."""
