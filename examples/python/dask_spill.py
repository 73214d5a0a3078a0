"""A Dask job whose worker keeps 8 MiB of results in its own memory, and the others in another node's.

python dask_spill.py          (pip install dask distributed)
"""

import dask
import numpy as np
from dask.distributed import Client, LocalCluster
from dask.sizeof import sizeof
from zict import Buffer

import hanare


def part(number):
    return np.full(1 << 18, float(number))


if __name__ == "__main__":
    pool = hanare.connect(nodes=2, memory="256MiB")
    spilled = hanare.Dict("spilled", pool=pool, place="node=1")

    def data():
        return Buffer({}, spilled, n=8 << 20, weight=lambda key, value: sizeof(value))

    options = {"memory_limit": 0, "data": data, "dashboard_address": None}
    with LocalCluster(n_workers=1, threads_per_worker=1, processes=False, **options) as cluster, Client(cluster) as client:
        parts = client.persist([dask.delayed(part)(number) for number in range(20)])
        dask.distributed.wait(parts)
        print("spilled", len(spilled), "of 20 parts of 2 MiB")
        total = client.compute(dask.delayed(sum)([dask.delayed(np.sum)(each) for each in parts])).result()
        print("sum", total)
    spilled.remove()
