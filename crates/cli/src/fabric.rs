//! Which fabric moves bytes between hosts: an option of some commands, a setting (`HANARE_FABRIC`) of all that they start.

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// The setting.
pub const VARIABLE: &str = "HANARE_FABRIC";

/// What moves bytes between hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Fabric {
    /// Any two machines.
    Tcp,
    /// InfiniBand, RoCE, Slingshot, and whatever else UCX knows.
    Ucx,
}

/// Makes the option the setting of this process and of all that it starts, by beginning anew with the variable set.
///
/// **Errors**: UCX asked for where there is none.
pub fn settle(fabric: Option<Fabric>) -> Result<()> {
    let Some(fabric) = fabric else { return Ok(()) };
    let value = match fabric {
        Fabric::Tcp => "tcp",
        Fabric::Ucx => "ucx",
    };
    if let (Fabric::Ucx, Err(reason)) = (fabric, hanare::ucx::available()) {
        bail!("the ucx fabric cannot be used: {reason}");
    }
    if std::env::var_os(VARIABLE).is_some_and(|set| set == value) {
        return Ok(());
    }
    let error = Command::new("/proc/self/exe").args(std::env::args_os().skip(1)).env(VARIABLE, value).exec();
    Err(error).context("cannot start again with the fabric set")
}
