"""A producer and a consumer on two nodes: a queue for what is small, an array for what is large.

hanare run --nodes 2 -- python producer.py
"""

import struct

import numpy as np

import hanare

BATCHES, ROWS = 20, 4096

pool = hanare.connect(start=False)
if pool.rank == 0:
    # The queue lies at the consumer, where it is looked at.
    pool.queue("ready", block=16, place="node=1")
    pool.zeros((4, ROWS), "f8", name="batches", place="node=1")
    pool.queue("free", block=16)
pool.barrier()
batches, ready, free = pool.open("batches"), pool.queue("ready"), pool.queue("free")

if pool.rank == 0:
    with ready.writer() as tell, free.reader() as freed:
        for number in range(BATCHES):
            # Four batches are under way at most: a fifth waits for the first to come back.
            place = number if number < 4 else struct.unpack("<qq", freed.receive(timeout=30))[0]
            batches[place] = np.full(ROWS, float(number))
            tell.send(struct.pack("<qq", place, number))
else:
    total = 0.0
    with ready.reader() as told, free.writer() as give_back:
        for number in range(BATCHES):
            place, which = struct.unpack("<qq", told.receive(timeout=30))
            assert which == number
            total += float(np.sum(batches[place]))
            give_back.send(struct.pack("<qq", place, 0))
    print("batches", BATCHES, "sum", total)
pool.barrier()
