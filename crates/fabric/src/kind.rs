//! A fabric between hosts, as its folder describes it.

use crate::link::Link;
use crate::tcp::Channel;
use std::path::PathBuf;
use std::time::Instant;
use thiserror::Error;

/// A fabric between hosts beside TCP. A library that is loaded at run time moves its bytes.
pub struct Fabric {
    /// The name in settings and offers: at most eight letters.
    pub name: &'static str,
    /// Networks that it is for, in words for users.
    pub about: &'static str,
    /// The package that brings its library.
    pub package: &'static str,
    /// True if this machine may have hardware that it is fast on, for the cost of a look.
    pub may_be_fast: fn() -> bool,
    /// The library of this machine. The first call opens it, which takes some 10 ms.
    pub available: fn() -> Result<FabricInfo, Reason>,
    /// Makes the link of two sides that have agreed on it, beside their connection over TCP.
    pub(crate) connect: fn(Channel, String, Instant) -> hanare_protocol::Result<Box<dyn Link>>,
}

/// A fabric of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FabricInfo {
    /// The library's version, such as `1.13.1`.
    pub version: String,
    /// The library that was opened.
    pub path: PathBuf,
    /// The transports that it found, such as `posix`, `tcp`, `rc_mlx5`, in alphabetical order.
    pub transports: Vec<String>,
    /// True if a network card of this machine reads and writes memory by itself.
    pub has_rdma: bool,
}

/// Why a fabric cannot be used here.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct Reason(pub String);
