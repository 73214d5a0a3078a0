//! Moving messages between processes and hosts: one contract, shm, tcp, and layers over it.
