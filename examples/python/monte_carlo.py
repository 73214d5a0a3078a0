"""Random walks over a table that all worker processes share; they count where the walks end, in an array of another node.

python monte_carlo.py
"""

import multiprocessing

import numpy as np

import hanare

STATES, STEPS, WALKS = 64, 200, 2000


def walk(table, ends, seed):
    dice = np.random.default_rng(seed)
    places = np.zeros(WALKS, int)
    for _ in range(STEPS):
        # The table holds, for each state, where each of 16 equal chances leads.
        places = table[places, dice.integers(0, 16, WALKS)]
    # Each count is added in one step where it lies, whoever else adds.
    np.add.at(ends, places, 1)


if __name__ == "__main__":
    pool = hanare.connect(nodes=2, memory="64MiB")
    table = pool.zeros((STATES, 16), "i8", name="table")
    here = np.arange(STATES)[:, None]
    table[:] = (here + np.where(np.arange(16) < 8, 1, -1)) % STATES
    ends = pool.zeros(STATES, "i8", name="ends", place="node=1")

    # What the workers are handed are references of some hundred bytes.
    with multiprocessing.get_context("spawn").Pool(2) as workers:
        workers.starmap(walk, [(table, ends, seed) for seed in range(8)])

    counts = ends.get()
    print("walks", counts.sum())
    print("odd ends", counts[1::2].sum())
    print("mean distance", round(float((counts * np.minimum(here[:, 0], STATES - here[:, 0])).sum() / counts.sum()), 1))
