//! Use of the machine by the measured program and its nodes: CPU time, time that others had instead, and counts of yielded CPUs. The kernel
//! counts it for each thread, in `/proc/PID/task`.

use anyhow::{Context, Result};
use rustix::time::{ClockId, clock_gettime};
use std::ops::{AddAssign, Sub};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Use by threads from their begin, or between two moments.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    /// CPU time in ns.
    pub cpu: f64,
    /// Time in ns for which they could have run and had no CPU.
    pub queued: f64,
    /// Times that they slept until somebody woke them.
    pub parks: f64,
    /// Times that another ran in their place: they yielded, or their time was up.
    pub yields: f64,
}

impl AddAssign for Usage {
    fn add_assign(&mut self, more: Usage) {
        self.cpu += more.cpu;
        self.queued += more.queued;
        self.parks += more.parks;
        self.yields += more.yields;
    }
}

impl Sub for Usage {
    type Output = Usage;

    fn sub(self, before: Usage) -> Usage {
        Usage {
            cpu: self.cpu - before.cpu,
            queued: self.queued - before.queued,
            parks: self.parks - before.parks,
            yields: self.yields - before.yields,
        }
    }
}

impl Usage {
    /// The calling thread's use.
    ///
    /// **Cost**: two files are read, some 20 us. **Errors**: the kernel does not count it.
    pub fn of_thread() -> Result<Usage> {
        let used = of_task(Path::new("/proc/thread-self"))?;
        Ok(Usage { cpu: thread_cpu(), ..used })
    }

    /// Use of all threads of processes that live. A thread that ended is counted no more. A difference of two looks is one of threads that
    /// live at both.
    ///
    /// **Cost**: two files for each thread. **Errors**: one of the processes is gone, or the kernel does not count it.
    pub fn of_processes(processes: &[u32]) -> Result<Usage> {
        let mut sum = Usage::default();
        for process in processes {
            let tasks = PathBuf::from(format!("/proc/{process}/task"));
            for task in std::fs::read_dir(&tasks).with_context(|| format!("process {process} is gone"))? {
                let task = task?.path();
                match of_task(&task) {
                    // The task ended since it was listed.
                    Err(_) if !task.exists() => {}
                    used => sum += used?,
                }
            }
        }
        Ok(sum)
    }
}

/// Nanoseconds of CPU time of the calling thread, exactly: the kernel writes them into its files at every tick only.
fn thread_cpu() -> f64 {
    let used = clock_gettime(ClockId::ThreadCPUTime);
    used.tv_sec as f64 * 1e9 + used.tv_nsec as f64
}

fn of_task(task: &Path) -> Result<Usage> {
    let read = |name: &str| {
        let path = task.join(name);
        std::fs::read_to_string(&path).with_context(|| format!("{} cannot be read; this kernel may not count it", path.display()))
    };
    parse(&read("schedstat")?, &read("status")?).with_context(|| format!("what {} says is not understood", task.display()))
}

/// A thread's usage by the text of its `schedstat` (ns on a CPU, ns in the queue, turns) and `status`.
fn parse(schedstat: &str, status: &str) -> Option<Usage> {
    let mut times = schedstat.split_whitespace().map(str::parse::<f64>);
    let mut time = || times.next()?.ok();
    let count = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().parse().ok()
    };
    Some(Usage {
        cpu: time()?,
        queued: time()?,
        parks: count("voluntary_ctxt_switches:")?,
        yields: count("nonvoluntary_ctxt_switches:")?,
    })
}

/// A look at the calling thread and at nodes, when something begins that it does with them.
#[derive(Debug)]
pub struct Watch {
    nodes: Vec<u32>,
    nodes_before: Usage,
    program_before: Usage,
    since: Instant,
}

/// Use while a [`Watch`] looked.
#[derive(Clone, Copy, Debug)]
pub struct Spent {
    /// Nanoseconds that passed.
    pub elapsed: f64,
    /// The thread's use.
    pub program: Usage,
    /// All nodes' use.
    pub nodes: Usage,
}

impl Watch {
    /// Begins, with nodes by their process ids.
    pub fn begin(nodes: Vec<u32>) -> Result<Watch> {
        let nodes_before = Usage::of_processes(&nodes)?;
        Ok(Watch { nodes, nodes_before, program_before: Usage::of_thread()?, since: Instant::now() })
    }

    /// Ends; by the thread that began it. What nodes do afterwards is not counted, so they are looked at last.
    pub fn end(self) -> Result<Spent> {
        // In the reverse order: looking costs time, too, which is not what was watched.
        let (elapsed, cpu) = (self.since.elapsed().as_nanos() as f64, thread_cpu());
        let program = Usage { cpu, ..Usage::of_thread()? } - self.program_before;
        Ok(Spent { elapsed, program, nodes: Usage::of_processes(&self.nodes)? - self.nodes_before })
    }
}

impl Spent {
    /// The thread and the nodes together.
    pub fn all(&self) -> Usage {
        let mut all = self.program;
        all += self.nodes;
        all
    }

    /// Nanoseconds for which the thread did not run: it slept, or others had the CPU.
    pub fn waited(&self) -> f64 {
        (self.elapsed - self.program.cpu).max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn the_kernels_words_are_read() {
        let status = "Name:\thanare\nThreads:\t6\nvoluntary_ctxt_switches:\t11\nnonvoluntary_ctxt_switches:\t39\n";
        let used = parse("239564017 149759105 51\n", status).unwrap();
        assert_eq!(used, Usage { cpu: 239_564_017.0, queued: 149_759_105.0, parks: 11.0, yields: 39.0 });
        assert_eq!(parse("", status), None);
        assert_eq!(parse("1 2 3\n", "Name:\thanare\n"), None);
    }

    #[test]
    fn work_is_computing_and_sleep_is_waiting() {
        let watch = Watch::begin(vec![std::process::id()]).unwrap();
        while Usage::of_thread().unwrap().cpu - watch.program_before.cpu < 2e6 {}
        std::thread::sleep(Duration::from_millis(3));
        let spent = watch.end().unwrap();
        assert!(spent.program.cpu >= 2e6 && spent.waited() >= 3e6, "{spent:?}");
        assert!(spent.program.parks >= 1.0 && spent.program.cpu + spent.waited() >= spent.elapsed, "{spent:?}");
        assert_eq!(spent.all().parks, spent.program.parks + spent.nodes.parks);
    }

    #[test]
    fn a_process_that_is_gone_is_an_error() {
        let error = Usage::of_processes(&[u32::MAX]).unwrap_err();
        assert!(error.to_string().contains("is gone"), "{error}");
    }
}
