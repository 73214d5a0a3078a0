"""k-means on a table of another node, of which 1 MiB at a time is here.

python kmeans.py
"""

import numpy as np

import hanare

POINTS, PART = 100_000, 16_384

pool = hanare.connect(nodes=2, memory="128MiB")
dice = np.random.default_rng(1)
wanted = np.array([[0.0] * 8, [5.0] * 8, [10.0] * 8])
table = pool.zeros((POINTS, 8), "f8", name="points", place="node=1")
for begin in range(0, POINTS, PART):
    rows = table[begin : begin + PART]
    rows[...] = wanted[dice.integers(0, 3, len(rows))] + dice.normal(0, 0.5, rows.shape)

# Centres begin as points of a sample, each the farthest from those before; one command fetches it.
sample = table[dice.integers(0, POINTS, 200)]
centres = sample[:1]
while len(centres) < 3:
    distances = ((sample[:, None] - centres) ** 2).sum(axis=2).min(axis=1)
    centres = np.vstack([centres, sample[distances.argmax()]])
for turn in range(20):
    sums, counts = np.zeros_like(centres), np.zeros(3)
    for begin in range(0, POINTS, PART):
        rows = table[begin : begin + PART].get()
        nearest = ((rows[:, None] - centres) ** 2).sum(axis=2).argmin(axis=1)
        np.add.at(sums, nearest, rows)
        counts += np.bincount(nearest, minlength=3)
    before, centres = centres, sums / counts[:, None]
    if np.allclose(before, centres):
        break
print("turns", turn)
print("centres", np.sort(np.abs(centres.mean(axis=1)).round(1)).tolist(), "of", int(counts.sum()), "points")
