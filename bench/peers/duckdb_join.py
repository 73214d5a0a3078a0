"""duckdb_join.py MIB: a join of two tables, which take about MIB with the table that DuckDB builds for it. Prints "join" and ns for a page
of 4 KiB of them; fails where a row is missing.

Without an argument it prints DuckDB's version.
"""

import sys
import time

try:
    import duckdb
except ImportError:
    sys.exit("no duckdb: `python3 -m pip install duckdb` brings it")

# For each order its 16 bytes, those of its items, and a row of the join's own table.
ITEMS = 3
ORDER_LEN = 96

if len(sys.argv) == 1:
    print(duckdb.__version__)
    sys.exit()
size = int(sys.argv[1]) * 2**20
orders = size // ORDER_LEN
database = duckdb.connect(":memory:")
# By default it takes a share of a control group's limit, and puts the rest on disk by itself.
database.execute(f"set threads = 2; set memory_limit = '{4 * size >> 20}MiB'")
# In no order, so that each probe touches the join's table anywhere.
database.execute(f"create table orders as select hash(i) as number, i as value from range({orders}) as t(i)")
database.execute(f"create table items as select hash(hash(i) % {orders}) as number, i as value from range({ITEMS * orders}) as t(i)")
begun = time.perf_counter()
rows = database.execute("select count(*), sum(items.value + orders.value) from items join orders using (number)").fetchone()[0]
seconds = time.perf_counter() - begun
print("join", seconds * 1e9 / (size / 4096))
sys.exit(rows != ITEMS * orders)
