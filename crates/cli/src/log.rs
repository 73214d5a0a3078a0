//! A long-running command's messages beside its work: lines on standard error, as much as HANARE_LOG asks for.

use crate::lines::JsonLines;
use crate::rate_limit::RateLimit;
use anyhow::{Context, Result};
use std::io::IsTerminal;
use tracing_subscriber::{EnvFilter, Layer, layer::SubscriberExt, util::SubscriberInitExt};

/// Begins; `unset` is what is said where HANARE_LOG is not set. Each line is for people, or JSON.
pub fn begin(unset: &str, as_json: bool) -> Result<()> {
    let wanted = std::env::var("HANARE_LOG").ok().filter(|text| !text.is_empty()).unwrap_or_else(|| unset.to_owned());
    let filter = EnvFilter::try_new(&wanted).with_context(|| format!("HANARE_LOG cannot be '{wanted}'"))?;
    let registry = tracing_subscriber::registry().with(filter);
    if as_json {
        registry.with(JsonLines.with_filter(RateLimit::default())).init();
        return Ok(());
    }
    let is_terminal = std::io::stderr().is_terminal();
    let lines = tracing_subscriber::fmt::layer().compact().with_target(false).with_ansi(is_terminal).with_writer(std::io::stderr);
    registry.with(lines.with_filter(RateLimit::default())).init();
    Ok(())
}
