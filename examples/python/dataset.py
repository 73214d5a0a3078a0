"""A data set for `torch.utils.data` whose samples lie on another node: a batch is fetched in one command.

python dataset.py             (with torch, its DataLoader; without it, batches by hand)
"""

import numpy as np

import hanare

SAMPLES, BATCH = 1000, 50


class Samples:
    """A data set as torch knows them: `__getitems__` gives a whole batch."""

    def __init__(self, table, labels):
        self.table, self.labels = table, labels

    def __len__(self):
        return len(self.table)

    def __getitem__(self, number):
        return self.table[number].get(), self.labels[number]

    def __getitems__(self, numbers):
        return list(zip(self.table[numbers], self.labels[numbers]))


pool = hanare.connect(nodes=2, memory="64MiB")
table = pool.zeros((SAMPLES, 32, 32), "f4", name="samples", place="node=1")
labels = pool.zeros(SAMPLES, "i8", name="labels", place="node=1")
labels[...] = np.arange(SAMPLES) % 10
table[...] = np.broadcast_to((np.arange(SAMPLES) % 10)[:, None, None], table.shape)
samples = Samples(table, labels)

try:
    from torch.utils.data import DataLoader

    # Workers attach by themselves: an array is handed to them as a reference.
    loader = DataLoader(samples, batch_size=BATCH, shuffle=True, num_workers=2)
    print("torch.utils.data.DataLoader")
except ImportError:
    order = np.random.default_rng(1).permutation(SAMPLES)
    fetched = (samples.__getitems__(numbers.tolist()) for numbers in order.reshape(-1, BATCH))
    loader = (tuple(map(np.array, zip(*batch))) for batch in fetched)
    print("no torch: batches by hand")

before, seen = pool.traffic()["messages_sent"], 0
for pictures, marks in loader:
    assert tuple(pictures.shape) == (BATCH, 32, 32) and bool((pictures[:, 0, 0] == marks).all())
    seen += len(marks)
print("samples", seen, "in", pool.traffic()["messages_sent"] - before, "messages")
