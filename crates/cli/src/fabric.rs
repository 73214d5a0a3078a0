//! The fabric between hosts, and its seals: options of some commands, settings (`HANARE_FABRIC`, `HANARE_SEAL`) of all that they start.

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// The setting.
pub const VARIABLE: &str = "HANARE_FABRIC";

/// The connections to seal.
const SEAL: &str = "HANARE_SEAL";

/// Choice of a fabric between hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Fabric {
    /// Any two machines.
    Tcp,
    /// InfiniBand, RoCE, Slingshot, and whatever else UCX knows.
    Ucx,
}

/// Makes the options the settings of this process and of all that it starts, by beginning anew with the variables set.
///
/// **Errors**: UCX asked for where there is none.
pub fn settle(fabric: Option<Fabric>, is_plain: bool) -> Result<()> {
    let fabric_value = fabric.map(|fabric| match fabric {
        Fabric::Tcp => "tcp",
        Fabric::Ucx => "ucx",
    });
    if let (Some(Fabric::Ucx), Err(reason)) = (fabric, hanare::ucx::available()) {
        bail!("the ucx fabric cannot be used: {reason}");
    }
    let wanted = [(VARIABLE, fabric_value), (SEAL, is_plain.then_some("plain"))];
    let is_unset = |(variable, value): &(&str, Option<&str>)| {
        value.is_some_and(|value| std::env::var_os(variable).is_none_or(|set| set != value))
    };
    let unset: Vec<(&str, &str)> =
        wanted.into_iter().filter(is_unset).filter_map(|(variable, value)| Some((variable, value?))).collect();
    if unset.is_empty() {
        return Ok(());
    }
    let error = Command::new("/proc/self/exe").args(std::env::args_os().skip(1)).envs(unset).exec();
    Err(error).context("cannot start again with the fabric set")
}
