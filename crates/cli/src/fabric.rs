//! The fabric between hosts, and its seals: options of some commands, settings (`HANARE_FABRIC`, `HANARE_SEAL`) of all that they start.

use anyhow::{Context, Result, bail};
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use hanare::fabrics::{FABRICS, names};
use std::os::unix::process::CommandExt;
use std::process::Command;

/// The setting.
pub const VARIABLE: &str = "HANARE_FABRIC";

/// The connections to seal.
const SEAL: &str = "HANARE_SEAL";

/// Takes the name of a fabric between hosts.
pub fn parser() -> impl TypedValueParser<Value = String> {
    PossibleValuesParser::new(names().map(|(name, about)| PossibleValue::new(name).help(about)))
}

/// Makes the options the settings of this process and of all that it starts, by beginning anew with the variables set.
///
/// **Errors**: a fabric asked for whose library is not here.
pub fn settle(fabric: Option<&str>, is_plain: bool) -> Result<()> {
    let by_library = FABRICS.iter().find(|known| Some(known.name) == fabric);
    if let Some(Err(reason)) = by_library.map(|known| (known.available)()) {
        bail!("the {} fabric cannot be used: {reason}", fabric.unwrap_or_default());
    }
    let wanted = [(VARIABLE, fabric), (SEAL, is_plain.then_some("plain"))];
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
