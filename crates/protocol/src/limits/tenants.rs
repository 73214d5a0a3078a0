//! Limits of tenants.

/// Most tenants of a pool at once.
pub const TENANT_COUNT_MAX: usize = 4096;

/// Most bytes of a tenant's name, which stands before those of its regions.
pub const TENANT_NAME_LEN_MAX: usize = 63;

/// Time from a wrong key to its refusal, in milliseconds: a program has few tries in a second, whatever it costs the pool to look.
pub const TENANT_REFUSED_MS: u64 = 1000;

/// Most regions that one request removes with their tenant.
pub const TENANT_REMOVED_COUNT_MAX: usize = 1000;

/// Most bytes of a tenant's file that are looked at.
pub const TENANT_FILE_LEN_MAX: u64 = 4096;
