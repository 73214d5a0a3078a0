//! The machine of a bench, as far as it explains the figures.

use serde::Serialize;

/// Part of the CPUs' time that others had, above which figures are marked.
pub(crate) const BUSY: f64 = 0.1;

/// A machine.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    /// The processor's name.
    pub cpu: String,
    /// CPUs that this process may use.
    pub cpus: usize,
    /// Main memory in bytes.
    pub memory: u64,
    /// The kernel's release.
    pub kernel: String,
    /// Part of the CPUs' time that others had while the bench ran: other programs, the kernel's threads, other virtual machines.
    pub others: f64,
    /// Version of this build.
    pub hanare: &'static str,
}

impl Machine {
    /// The present machine.
    pub fn here() -> Machine {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let field = |text: &str, name: &str| {
            text.lines()
                .find(|line| line.starts_with(name))
                .and_then(|line| line.split_once(':'))
                .map(|(_, value)| value.trim().to_owned())
        };
        let kib = field(&read("/proc/meminfo"), "MemTotal").and_then(|text| text.trim_end_matches(" kB").parse::<u64>().ok());
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        Machine {
            cpu: field(&read("/proc/cpuinfo"), "model name").unwrap_or_else(|| std::env::consts::ARCH.to_owned()),
            cpus,
            memory: kib.unwrap_or(0) << 10,
            kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
            others: 0.0,
            hanare: env!("CARGO_PKG_VERSION"),
        }
    }

    /// In a line.
    pub fn line(&self) -> String {
        let busy = if self.others > BUSY { format!(", BUSY (others had {} of it)", percent(self.others)) } else { String::new() };
        format!("{} CPUs, {}, Linux {}{busy}", self.cpus, self.cpu, self.kernel)
    }
}

/// A part as people write it.
pub(crate) fn percent(part: f64) -> String {
    format!("{:.0} %", part * 100.0)
}

/// Counts of the kernel in ticks, since the machine and this process began.
#[derive(Clone, Copy, Debug)]
struct Ticks {
    all: u64,
    busy: u64,
    /// The process and those of its descendants that it, or another descendant, has waited for.
    own: u64,
}

impl Ticks {
    /// From the texts of `/proc/stat` and `/proc/self/stat`. `None` where they are not as `proc(5)` says.
    fn of(machine: &str, process: &str) -> Option<Ticks> {
        let times: Vec<u64> = numbers(machine.lines().next()?.strip_prefix("cpu ")?);
        // User, nice, system, idle, waiting for a disk, interrupts, soft interrupts, stolen; what guests had is in the first two.
        let all = times.get(..8)?.iter().sum();
        let idle = times[3] + times[4];
        // The name may hold spaces and brackets; behind its last bracket come a letter and numbers.
        let own = numbers(process.rsplit_once(')')?.1.trim_start().get(1..)?);
        Some(Ticks { all, busy: all - idle, own: own.get(10..14)?.iter().sum() })
    }

    fn now() -> Option<Ticks> {
        let read = |path: &str| std::fs::read_to_string(path).ok();
        Ticks::of(&read("/proc/stat")?, &read("/proc/self/stat")?)
    }
}

/// The numbers at the beginning of a text; a negative one, which is no count, as 0.
fn numbers(text: &str) -> Vec<u64> {
    text.split_whitespace().map_while(|word| word.parse::<i64>().ok()).map(|number| number.max(0).cast_unsigned()).collect()
}

/// Finds out how much of the machine others have, from when it is made.
#[derive(Debug)]
pub(crate) struct OthersWatch(Option<Ticks>);

impl OthersWatch {
    pub(crate) fn start() -> OthersWatch {
        OthersWatch(Ticks::now())
    }

    /// The part of the CPUs' time that others had since it was made; 0 where the kernel does not tell.
    pub(crate) fn others(&self) -> f64 {
        self.0.zip(Ticks::now()).map_or(0.0, |(before, now)| part(before, now))
    }
}

fn part(before: Ticks, now: Ticks) -> f64 {
    let others = now.busy.saturating_sub(before.busy).saturating_sub(now.own.saturating_sub(before.own));
    let all = now.all.saturating_sub(before.all).max(1);
    (others as f64 / all as f64 * 100.0).round() / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_had_is_neither_our_own_nor_our_childrens() {
        let process = |own: u64| format!("7 (a) b) S 1 7 7 0 -1 4194304 95 60 0 0 {own} 5 {own} 5 20 0 1 0");
        let before = Ticks::of("cpu  100 0 50 800 50 0 0 0 7 0\ncpu0 1", &process(10)).unwrap();
        assert_eq!((before.all, before.busy, before.own), (1000, 150, 30));
        // 60 of 100 ticks busy; 40 of them ours and our children's.
        let now = Ticks::of("cpu  140 0 60 840 50 5 3 2 7 0\ncpu0 1", &process(30)).unwrap();
        assert_eq!(part(before, now), 0.2);
    }

    #[test]
    fn a_kernel_that_says_something_else_is_not_believed() {
        for (machine, process) in [("", ""), ("cpu 1 2 3", "7 (a) S 1"), ("cpu  1 2 3 4 5 6 7 8", "7 (a)"), ("intr 5", "7 (a) S")]
        {
            assert!(Ticks::of(machine, process).is_none(), "{machine:?} {process:?}");
        }
        assert!(OthersWatch::start().others() <= 1.0);
    }
}
