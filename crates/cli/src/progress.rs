//! Progress: a bar where standard error is a terminal, else a line every second.

use crate::size;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// Time between lines where no bar can be drawn.
const LINE_EVERY: Duration = Duration::from_secs(1);

/// Progress of a task, in bytes.
pub struct Progress {
    what: String,
    len: u64,
    done: u64,
    started: Instant,
    next_line: Instant,
    bar: Option<ProgressBar>,
}

impl Progress {
    /// A task of `len` bytes, none of them done.
    pub fn start(what: &str, len: u64) -> Progress {
        let bar = std::io::stderr().is_terminal().then(|| {
            let style = "{msg} [{bar:30}] {binary_bytes}/{binary_total_bytes} {binary_bytes_per_sec}";
            let style = ProgressStyle::with_template(style).expect("the template is right").progress_chars("=> ");
            ProgressBar::new(len).with_style(style).with_message(what.to_owned())
        });
        let started = Instant::now();
        Progress { what: what.to_owned(), len, done: 0, started, next_line: started + LINE_EVERY, bar }
    }

    /// Counts `bytes` more as done.
    pub fn advance(&mut self, bytes: u64) {
        self.done += bytes;
        match &self.bar {
            Some(bar) => bar.inc(bytes),
            None if Instant::now() >= self.next_line => {
                eprintln!("{}: {} of {}", self.what, size::show(self.done), size::show(self.len));
                self.next_line += LINE_EVERY;
            }
            None => {}
        }
    }

    /// All is done: a line says how fast.
    pub fn finish(self) {
        let seconds = self.started.elapsed().as_secs_f64();
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        let rate = (self.len as f64 / seconds.max(1e-9)) as u64;
        eprintln!("{}: {} in {seconds:.3} s, {}/s", self.what, size::show(self.len), size::show(rate));
    }
}

/// A step whose length is not known: a line that says what is being done, for as long as it is.
pub struct Step {
    bar: Option<ProgressBar>,
}

impl Step {
    /// Begins a step.
    pub fn start(what: &str) -> Step {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new_spinner().with_message(what.to_owned());
            bar.enable_steady_tick(Duration::from_millis(100));
            bar
        });
        if bar.is_none() {
            eprintln!("{what} ...");
        }
        Step { bar }
    }
}

impl Drop for Step {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// A count of steps out of a total, drawn only on a terminal.
pub struct Count {
    bar: Option<ProgressBar>,
}

impl Count {
    /// A count of none.
    pub fn start() -> Count {
        let bar = std::io::stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template("[{bar:30}] {pos}/{len} {msg}").expect("the template is right");
            ProgressBar::new(0).with_style(style.progress_chars("=> "))
        });
        Count { bar }
    }

    /// `done` of `count` are done, and `what` comes next.
    pub fn at(&mut self, done: usize, count: usize, what: &str) {
        if let Some(bar) = &self.bar {
            bar.set_length(count as u64);
            bar.set_position(done as u64);
            bar.set_message(what.to_owned());
        }
    }

    /// All is done.
    pub fn finish(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
