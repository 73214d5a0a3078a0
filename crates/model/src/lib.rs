//! Timing models of the five papers' hardware, and the report that holds paper and model side by side.
//!
//! A model is a table of cited parameters ([`parameters`]), parts with state, and experiments ([`experiment`]) that yield
//! tables, plots, produced facts and verdicts ([`outcome`], [`claim`]). Event models run on [`engine`] in whole picoseconds
//! ([`time`]); equations run on `f64`. Same parameters, same bytes out.
//!
//! `hanare-models` (crate `models`) asks them for the command line: [`command::list`], [`command::run`], [`report::write`], [`report::json`]
//! and [`what_if::run`]. The texts that they return end with a newline and go to standard output as they are; the errors are one line each.
#![forbid(unsafe_code)]

pub mod claim;
pub mod command;
pub mod engine;
pub mod experiment;
pub mod facts;
pub mod memo;
pub mod network;
pub mod outcome;
pub mod pages;
pub mod papers;
pub mod parameters;
pub mod plot;
pub mod reads;
pub mod recent;
pub mod report;
pub mod sensitivity;
pub mod sequence;
pub mod station;
pub mod statistics;
pub mod table;
pub mod text;
pub mod time;
pub mod tolerance;
pub mod topology;
pub mod trace;
pub mod unit;
pub mod what_if;

pub use papers::papers;
