//! Lock-free rings in shared memory, doorbells and the wait policy.
