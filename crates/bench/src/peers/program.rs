//! Programs that print figures: compiled from C, run with a time limit, their lines read.

use crate::Options;
use crate::turns::Figures;
use anyhow::{Context, Result, bail, ensure};
use std::ffi::OsStr;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Time for one turn of a program.
const TURN_MAX: Duration = Duration::from_secs(300);

/// Optimised as the peers' users would have it.
const FLAGS: [&str; 3] = ["-std=gnu11", "-O3", "-w"];

/// Compiled peers, in a folder that goes with it.
pub struct Compiled {
    folder: TempDir,
    sources: PathBuf,
}

impl Compiled {
    /// An empty list of compiled programs.
    pub fn new(options: &Options) -> Result<Compiled> {
        let folder = tempfile::Builder::new().prefix("hanare-bench-").tempdir().context("cannot make a folder for the peers")?;
        Ok(Compiled { folder, sources: options.peers.clone() })
    }

    /// Compiles `NAME.c` with `compiler` and further words (flags and libraries), and returns the program.
    pub fn build(&self, compiler: &str, name: &str, words: &[&str]) -> Result<PathBuf> {
        let source = self.sources.join(format!("{name}.c"));
        ensure!(source.is_file(), "{} is not there; run this in the folder of the sources", source.display());
        let program = self.folder.path().join(format!("{name}-{compiler}"));
        let mut command = Command::new(compiler);
        command.args(FLAGS).arg(&source).arg("-o").arg(&program).args(words);
        let output = command.output().with_context(|| format!("{compiler} is not installed"))?;
        ensure!(output.status.success(), "{compiler} cannot build it: {}", first_error(&output.stderr));
        Ok(program)
    }
}

fn first_error(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    let line = text.lines().find(|line| line.contains("error") || line.contains("cannot find")).or_else(|| text.lines().next());
    line.unwrap_or("it says nothing").trim().to_owned()
}

/// Runs a program to its end and returns what it printed.
pub fn run(program: &Path, arguments: &[impl AsRef<OsStr>], variables: &[(&str, &str)]) -> Result<String> {
    let name = program.file_name().unwrap_or(program.as_os_str()).to_string_lossy().into_owned();
    let mut command = Command::new(program);
    command.args(arguments).envs(variables.iter().copied()).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().with_context(|| format!("{name} is not installed"))?;
    let read = |stream: Option<Box<dyn Read + Send>>| {
        std::thread::spawn(move || {
            let mut text = Vec::new();
            stream.map(|mut stream| stream.read_to_end(&mut text));
            String::from_utf8_lossy(&text).into_owned()
        })
    };
    let out = read(child.stdout.take().map(|stream| Box::new(stream) as _));
    let err = read(child.stderr.take().map(|stream| Box::new(stream) as _));
    let deadline = Instant::now() + TURN_MAX;
    let status = loop {
        match child.try_wait()? {
            Some(status) => break status,
            None if Instant::now() > deadline => {
                child.kill()?;
                child.wait()?;
                bail!("{name} was not done within {TURN_MAX:?}");
            }
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    let (out, err) = (out.join().expect("reading does not panic"), err.join().expect("reading does not panic"));
    ensure!(status.success(), "{name} ended with {status}: {}", err.trim().lines().last().unwrap_or(""));
    Ok(out)
}

/// Reads `KEY NUMBER` lines.
pub fn figures(text: &str) -> Result<Figures> {
    let figures: Figures = text
        .lines()
        .filter_map(|line| line.split_once(' '))
        .filter_map(|(key, number)| Some((key.to_owned(), number.trim().parse().ok()?)))
        .collect();
    ensure!(!figures.is_empty(), "it printed no figures");
    Ok(figures)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_and_nothing_is_an_error() {
        assert_eq!(figures("warning: x\nget_8 31.5\n").unwrap(), Figures::from([("get_8".to_owned(), 31.5)]));
        assert!(figures("").is_err());
    }

    #[test]
    fn what_is_missing_is_said() {
        let error = run(Path::new("/nonexistent/peer"), &["1"], &[]).unwrap_err();
        assert!(format!("{error:#}").contains("peer is not installed"));
        let failed = run(Path::new("/bin/sh"), &["-c", "echo broken >&2; exit 3"], &[]).unwrap_err();
        assert!(format!("{failed:#}").contains("broken"));
    }
}
