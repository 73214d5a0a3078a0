//! Memory that others can change: lent slabs, mappings, accessors and vector kernels.
