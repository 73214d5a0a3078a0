"""DuckDB on local data: count and sum of 64-bit numbers in a range. `duckdb_scan.py BYTES`, or `duckdb_scan.py version`.

For every line that it reads it prints `scan_BYTES NANOSECONDS` and a full stop, as the peers in C do.
"""

import sys
import time

try:
    import duckdb
except ImportError:
    sys.exit("no duckdb: `python3 -m pip install duckdb` brings it")

TURN_QUERIES = 5


def main() -> None:
    if sys.argv[1:] == ["version"]:
        print(duckdb.__version__)
        return
    size = int(sys.argv[1])
    database = duckdb.connect(":memory:")
    # Random, as the other contestants' numbers: no part can be left out for its least and greatest.
    database.execute(f"create table numbers as select (hash(i) >> 1)::bigint - (1::bigint << 62) as value from range({size // 8}) as t(i)")
    query = f"select count(*), sum(value) from numbers where value between {-(2**61)} and {2**61}"
    for _ in sys.stdin:
        times = []
        for _ in range(TURN_QUERIES):
            start = time.perf_counter_ns()
            count, _ = database.execute(query).fetchone()
            times.append(time.perf_counter_ns() - start)
            if not count:
                sys.exit("nothing was in the range")
        print(f"scan_{size} {sorted(times)[len(times) // 2]}\n.", flush=True)


main()
