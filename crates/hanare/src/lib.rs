//! Memory in addition to main memory: the pool, its regions, and the node that lends them.
