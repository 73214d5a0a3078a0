//! Where a bench ran, as far as it explains the figures.

use serde::Serialize;

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
    /// Other work per CPU when the bench began (the load average of the last minute).
    pub load: f64,
    /// Version of this build.
    pub hanare: &'static str,
}

impl Machine {
    /// This one.
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
        let busy = read("/proc/loadavg").split(' ').next().and_then(|load| load.parse::<f64>().ok()).unwrap_or(0.0);
        Machine {
            cpu: field(&read("/proc/cpuinfo"), "model name").unwrap_or_else(|| std::env::consts::ARCH.to_owned()),
            cpus,
            memory: kib.unwrap_or(0) << 10,
            kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
            load: (busy / cpus as f64 * 100.0).round() / 100.0,
            hanare: env!("CARGO_PKG_VERSION"),
        }
    }

    /// In a line.
    pub fn line(&self) -> String {
        let busy = if self.load > 0.5 { format!(", BUSY (load {} per CPU)", self.load) } else { String::new() };
        format!("{} CPUs, {}, Linux {}{busy}", self.cpus, self.cpu, self.kernel)
    }
}
