"""An array that is longer than what any host lends: its pages lie on both nodes in turn.

python larger.py
"""

import numpy as np

import hanare

pool = hanare.connect(nodes=2, memory="64MiB")
rows = pool.zeros((96, 1 << 17), "f8", name="rows", place="interleave=1MiB")
lent = max(node["lent"] for node in pool.info())
print(f"{rows.nbytes >> 20} MiB, of which a node lends {lent >> 20} MiB")

for number in range(len(rows)):
    # A row of 1 MiB at a time goes to the node that has it.
    rows[number] = np.arange(rows.shape[1]) * number
print("sum", rows.sum())
print("row of the greatest", rows.argmax() // rows.shape[1])
print("column", rows[[1, 10, 90], 5])
