"""function -> Program: parsing, names by identity, what each statement touches, and what is refused."""
