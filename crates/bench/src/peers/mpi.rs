//! The MPI implementations that are installed, and how each is told which link to use.

use super::program::Compiled;
use super::session::Session;
use crate::turns::{Contestant, Figures};
use anyhow::{Context, Result, bail};
use std::path::Path;
use std::process::Command;

/// The link of a window's two ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// A shared window on one host.
    Local,
    /// TCP, as if each rank had a host of its own.
    Tcp,
}

impl Link {
    /// The peers' programs' word for it.
    fn word(self) -> &'static str {
        match self {
            Link::Local => "local",
            Link::Tcp => "remote",
        }
    }
}

/// An implementation of MPI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mpi {
    /// Open MPI.
    Open,
    /// MPICH.
    Mpich,
}

/// Reads the figures of a line, if they are in it.
pub type Read = fn(&str) -> Option<Result<Figures>>;

impl Mpi {
    /// The implementations that benches ask for.
    pub const ALL: [Mpi; 2] = [Mpi::Open, Mpi::Mpich];

    fn plain_name(self) -> &'static str {
        match self {
            Mpi::Open => "Open MPI",
            Mpi::Mpich => "MPICH",
        }
    }

    /// Its compiler, launcher and version. Distributions that have both add the name; else what is called mpirun must say which it is.
    pub fn tools(self) -> Result<(String, String, String)> {
        let suffix = if self == Mpi::Open { ".openmpi" } else { ".mpich" };
        let mut said = None;
        for suffix in [suffix, ""] {
            let (compiler, launcher) = (format!("mpicc{suffix}"), format!("mpirun{suffix}"));
            let Ok(output) = Command::new(&launcher).arg("--version").output() else { continue };
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            if let Some(version) = self.version(&text) {
                return Ok((compiler, launcher, version));
            }
            said = text.lines().next().map(str::to_owned);
        }
        match said {
            Some(line) => bail!("mpirun is '{line}'"),
            None => bail!("no mpirun"),
        }
    }

    /// The version in what `mpirun --version` printed, if it is this one's.
    fn version(self, text: &str) -> Option<String> {
        match self {
            Mpi::Open => {
                let first = text.lines().next().filter(|line| line.contains("Open MPI") || line.contains("OpenRTE"))?;
                first.split_whitespace().last().map(str::to_owned)
            }
            Mpi::Mpich => {
                let line = text.contains("HYDRA").then(|| text.lines().find(|line| line.trim().starts_with("Version:")))??;
                line.split_whitespace().last().map(str::to_owned)
            }
        }
    }

    /// Words for the launcher, all but the number of ranks, and variables for them.
    fn settings(self, link: Link) -> (Vec<&'static str>, Vec<(&'static str, &'static str)>) {
        match self {
            Mpi::Open => {
                // Ranks wherever there is room; as root only because the user is.
                let mut words = vec!["--use-hwthread-cpus", "--oversubscribe", "--bind-to", "none"];
                if link == Link::Tcp {
                    words.extend(["--mca", "pml", "ob1", "--mca", "btl", "tcp,self", "--mca", "osc", "pt2pt"]);
                }
                (words, vec![("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")])
            }
            // Debian's has the network module ucx, others ofi: each is told in its own words, and minds no others.
            Mpi::Mpich => match link {
                Link::Local => (vec![], vec![]),
                Link::Tcp => {
                    let variables = vec![("MPIR_CVAR_NOLOCAL", "1"), ("UCX_TLS", "tcp,self"), ("FI_PROVIDER", "tcp")];
                    (vec![], variables)
                }
            },
        }
    }

    /// A contestant that runs `program` with `words`; missing where this MPI is.
    pub fn contestant<'a>(self, compiled: &Compiled, program: &str, link: Link, words: &[String]) -> Contestant<'a> {
        let (name, session) = match self.tools() {
            Ok((compiler, launcher, version)) => {
                let name = format!("{} {version}", self.plain_name());
                (name, self.start(compiled, (&compiler, &launcher), program, link, words))
            }
            Err(error) => (self.plain_name().to_owned(), Err(error)),
        };
        Contestant::peer(&name, session.map(|mut session| move || -> Result<Figures> { session.turn() }))
    }

    /// A contestant that runs `program` again by `ranks` ranks over TCP in each turn. It takes its figures from the first line that `read`
    /// knows. Missing if this MPI is. The first turn has the word `--check`.
    ///
    /// A rank that has printed its figures and does not end is ended. MPICH 4.0 over UCX now and then waits in `MPI_Finalize` for ever.
    pub fn job<'a>(self, ranks: u32, compiled: &Compiled, program: &str, words: &[String], read: Read) -> Contestant<'a> {
        self.job_over(Link::Tcp, ranks, compiled, program, words, read)
    }

    /// [`Mpi::job`] for ranks of one host, over the fastest link there.
    pub fn local_job<'a>(self, ranks: u32, compiled: &Compiled, program: &str, words: &[String], read: Read) -> Contestant<'a> {
        self.job_over(Link::Local, ranks, compiled, program, words, read)
    }

    fn job_over<'a>(
        self,
        link: Link,
        ranks: u32,
        compiled: &Compiled,
        program: &str,
        words: &[String],
        read: Read,
    ) -> Contestant<'a> {
        let tools = self.tools();
        let name = match &tools {
            Ok((_, _, version)) => format!("{} {version}", self.plain_name()),
            Err(_) => self.plain_name().to_owned(),
        };
        let turn = tools.and_then(|(compiler, launcher, _)| {
            let program = compiled.build(&compiler, program, &["-lm"])?;
            let program = program.to_str().context("the folder's name is no text")?.to_owned();
            let (options, variables) = self.settings(link);
            let mut all: Vec<String> = options.into_iter().map(str::to_owned).collect();
            all.extend(["-n".to_owned(), ranks.to_string(), program]);
            all.extend_from_slice(words);
            let mut check = vec!["--check".to_owned()];
            Ok(move || {
                let words = [all.clone(), std::mem::take(&mut check)].concat();
                Session::start(Path::new(&launcher), &words, &variables)?.wait_for(read)
            })
        });
        Contestant::peer(&name, turn)
    }

    fn start(self, compiled: &Compiled, tools: (&str, &str), program: &str, link: Link, words: &[String]) -> Result<Session> {
        let (compiler, launcher) = tools;
        let program = compiled.build(compiler, program, &[])?;
        let program = program.to_str().context("the folder's name is no text")?;
        let (options, variables) = self.settings(link);
        let mut all: Vec<String> = options.into_iter().map(str::to_owned).collect();
        all.extend(["-n", "2", program, link.word()].map(str::to_owned));
        all.extend_from_slice(words);
        Session::start(Path::new(launcher), &all, &variables)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_and_told_apart() {
        let open = "mpirun.openmpi (OpenRTE) 4.1.4\n\nReport bugs to http://www.open-mpi.org/community/help/\n";
        let hydra = "HYDRA build details:\n    Version:                                 4.0.2\n    Release Date: x\n";
        assert_eq!((Mpi::Open.version(open).as_deref(), Mpi::Open.version(hydra)), (Some("4.1.4"), None));
        assert_eq!((Mpi::Mpich.version(hydra).as_deref(), Mpi::Mpich.version(open)), (Some("4.0.2"), None));
        assert_eq!(Mpi::Open.version("mpirun (Open MPI) 5.0.3\n").as_deref(), Some("5.0.3"));
    }
}
