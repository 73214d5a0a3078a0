"""numpy_product.py MIB: the product of two square matrices that take MIB together with it. Prints "product" and ns for a page of 4 KiB
of the three; fails where a row of the product is not what the rows say.

Without an argument it prints NumPy's version.
"""

import sys
import time

import numpy

if len(sys.argv) == 1:
    print(numpy.__version__)
    sys.exit()
n = int((int(sys.argv[1]) * 2**20 / 24) ** 0.5)
random = numpy.random.default_rng(1)
a, b = random.random((n, n)), random.random((n, n))
begun = time.perf_counter()
c = a @ b
seconds = time.perf_counter() - begun
print("product", seconds * 1e9 / (3 * n * n * 8 / 4096))
ones = numpy.ones(n)
# The sum of each row, in another order: rounding alone may differ.
sys.exit(not numpy.allclose(c @ ones, a @ (b @ ones), rtol=1e-9))
