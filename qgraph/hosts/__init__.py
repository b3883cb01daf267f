"""Kernels inside other compilers: as operations of ``torch.compile`` and ``jax.jit``, and with gradients.

``traced.py`` is what a call comes to that has values of theirs, which have no memory yet. ``parts.py`` takes the arguments
apart, ``meaning.py`` says what the kernel does to them without running it, and ``torch_ops.py`` and ``jax_calls.py`` make the
operations. Neither PyTorch nor JAX is imported before one of their values came.
"""
