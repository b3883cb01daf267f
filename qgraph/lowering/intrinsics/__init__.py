"""What operators and functions mean: their types, and the LLVM code that Numba emits for them."""
