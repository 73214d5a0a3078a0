//! Exchange of halos by two ranks on nodes of their own, in 3 and 4 dimensions. Layers of regions are gathered and scattered at the
//! memory's side. Beside them are programs that pack by themselves, and derived types of MPI. Each turn runs the program anew; the first is
//! checked.
//!
// FEATURE: D3-F25

use crate::Options;
use crate::compare::beside;
use crate::peers::mpi::Mpi;
use crate::peers::program::{self, Compiled};
use crate::programs::{Checked, figures, figures_of};
use crate::report::{Better, Report, Row};
use crate::turns::{Contestant, Figures, Outcome, take_turns};
use anyhow::{Result, anyhow, ensure};
use std::path::Path;

/// The bench's name.
pub const NAME: &str = "halo";

/// A field: as the program calls its dimensions, points of a side of each rank's box, and steps.
struct Field {
    dims: &'static str,
    side: (usize, usize),
    sweeps: (usize, usize),
}

const FIELDS: [Field; 2] =
    [Field { dims: "3d", side: (64, 8), sweeps: (40, 3) }, Field { dims: "4d", side: (12, 4), sweeps: (20, 3) }];

/// Our ways, as the program calls them and as rows do; the last is the baseline of the others.
const WAYS: [(&str, &str); 3] = [
    ("copy", "layers copied from region to region"),
    ("part", "messages of layers"),
    ("pack", "messages that the program packs"),
];

/// MPI's ways.
const MPI_WAYS: [(&str, &str); 2] = [("types", "derived types"), ("pack", "packed by the program")];

/// Name of a run's time for others' bytes, in the programs' words.
const EXCHANGE: &str = "fault_s";

/// Memory that each node lends.
const MEMORY: &str = "64M";

impl Field {
    fn words(&self, quick: bool, mode: &str) -> Vec<String> {
        let (side, sweeps) = (self.side(quick).to_string(), self.sweeps(quick).to_string());
        ["--dims", self.dims, &side, "--sweeps", &sweeps, "--mode", mode, "--json"].map(str::to_owned).to_vec()
    }

    fn side(&self, quick: bool) -> usize {
        if quick { self.side.1 } else { self.side.0 }
    }

    fn sweeps(&self, quick: bool) -> usize {
        if quick { self.sweeps.1 } else { self.sweeps.0 }
    }

    fn ours<'a>(&self, options: &'a Options, mode: &str) -> impl FnMut() -> Result<Figures> + 'a + use<'a> {
        let program = options.apps.join(NAME).display().to_string();
        let (nodes, ranks) = (options.nodes_or(2).to_string(), options.ranks.unwrap_or(2).to_string());
        let launch = ["run", "--nodes", &nodes, "-n", &ranks, "--memory", MEMORY, "--", &program].map(str::to_owned);
        let mut words = Checked::new(self.words(options.quick, mode));
        move || figures(&program::run(Path::new(&options.command), &[launch.to_vec(), words.next()].concat(), &[])?)
    }
}

/// Runs it.
pub fn run(options: &Options, progress: &mut dyn FnMut(&str)) -> Result<Report> {
    let program = options.apps.join(NAME);
    ensure!(program.is_file(), "{} is not there; `make apps` builds it", program.display());
    let compiled = Compiled::new(options)?;
    let ranks = options.ranks.unwrap_or(2);
    let mut report = Report::new(NAME);
    for field in &FIELDS {
        let mut contestants: Vec<_> = WAYS.iter().map(|(mode, name)| Contestant::ours(name, field.ours(options, mode))).collect();
        for mpi in Mpi::ALL {
            for (mode, name) in MPI_WAYS {
                let mut job = mpi.job(ranks, &compiled, "mpi_halo", &field.words(options.quick, mode), figures_of);
                job.name = format!("{}, {name}", job.name);
                contestants.push(job);
            }
        }
        let outcomes = take_turns(options.rounds(), contestants, progress)?;
        report.rows.extend(rows(field, options, &outcomes)?);
    }
    Ok(report)
}

/// The time of one exchange, beside that of every other way.
fn rows(field: &Field, options: &Options, outcomes: &[Outcome]) -> Result<Vec<Row>> {
    let scale = 1e6 / field.sweeps(options.quick) as f64;
    let (ours, mpis) = outcomes.split_at(WAYS.len());
    let (packed, at_memory) = ours.split_last().expect("there are our ways");
    let mut rows = Vec::new();
    for outcome in at_memory {
        let value = outcome.median(EXCHANGE).map_err(|reason| anyhow!("{}: {reason}", outcome.name))? * scale;
        let case = format!(
            "halo of {}^{}, {} ranks, tcp: {}",
            field.side(options.quick),
            field.dims,
            options.ranks.unwrap_or(2),
            outcome.name
        );
        let row = || Row::alone(case.clone(), value, "us", Better::Lower);
        let own = packed.median(EXCHANGE).map(|seconds| seconds * scale);
        rows.push(beside(row(), &format!("{} (own baseline)", packed.name), own, Some(1.0)));
        for mpi in mpis {
            rows.push(beside(row(), &mpi.name, mpi.median(EXCHANGE).map(|seconds| seconds * scale), Some(1.0)));
        }
    }
    Ok(rows)
}
