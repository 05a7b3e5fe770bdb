"""The neural swap on frames that never leave the card: the same steps on CuPy with CUDA kernels, or on NumPy.

Every kernel (.cu) has a module with its launch and its NumPy twin; `backend.Numpy` runs the twins, `backend.Cuda` the
kernels, and everything above them is one code.
"""
