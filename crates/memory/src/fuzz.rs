//! Fuzz targets: files that other processes of this host wrote.

/// A target's name, and what tries its input.
type FuzzTarget = (&'static str, fn(&[u8]));

/// All of them, by name.
pub const TARGETS: &[FuzzTarget] = &[("promises", crate::promise::fuzz)];

#[cfg(test)]
#[global_allocator]
static COUNTING: hanare_fuzz::Counting = hanare_fuzz::Counting;
