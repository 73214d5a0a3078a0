//! Shared parts of all crates' tests: programs that they start, reports of tests that did not run, addresses, and bounds of time.
//!
//! *Actors.* A test starts its own test program again as a node, a rank or a victim. [`actors!`] lists the functions that may be played so,
//! and [`words`] are the words that play one. No actor is a test, so `#[ignore]` marks long tests alone.
//!
//! *Skips.* A test that lacks what `scripts/prepare.sh` installs calls [`uninstalled`], which fails where `CI` is set. A test that lacks a
//! right, a kernel or a device calls [`unable`]. Both print past the capture of what passing tests print; `make test` counts them.
//!
//! *Addresses.* [`free_address`] is where a node is to listen whose address a test knows before.
//!
//! *Bounds.* [`paced`] and [`Patience`] give an idle machine's bound as long as a busy one takes.
#![forbid(unsafe_code)]

use std::collections::BTreeSet;
use std::fmt::Display;
use std::fs::OpenOptions;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// The variable that names the file in which `scripts/tests.sh` counts.
const FILE: &str = "SKIPPED_TESTS";

/// The test that plays actors.
const STAGE: &str = "actor";

/// Lists the actors of a test program, in its root: functions by their paths.
#[macro_export]
macro_rules! actors {
    ($($path:path),+ $(,)?) => {
        #[test]
        fn actor() {
            $crate::act(&[$((stringify!($path), $path as fn())),+]);
        }
    };
}

/// The words by which a test program plays an actor.
pub fn words(actor: &str) -> [&str; 4] {
    [STAGE, actor, "--exact", "--nocapture"]
}

/// Plays the actor that this program's words name. Among the tests nobody names one: then each has a name of its own.
pub fn act(actors: &[(&str, fn())]) {
    let words: Vec<String> = std::env::args().skip(1).take(2).collect();
    match &words[..] {
        [stage, name] if stage == STAGE && !name.starts_with('-') => match actors.iter().find(|(known, _)| known == name) {
            Some((_, act)) => act(),
            None => panic!("no actor {name} in {:?}", std::env::args().next()),
        },
        _ => {
            let names: BTreeSet<&str> = actors.iter().map(|(name, _)| *name).collect();
            assert_eq!(names.len(), actors.len(), "two actors of one name");
        }
    }
}

/// Reports that this machine does not let the test run, and that no package would change that.
pub fn unable(reason: impl Display) {
    say(&reason.to_string());
}

/// The test needs a program or library that `scripts/prepare.sh test` installs.
///
/// **Panics** where `CI` is set: there all of it is installed.
#[track_caller]
pub fn uninstalled(reason: impl Display) {
    assert!(!is_complete(std::env::var_os("CI").as_deref()), "{reason}; where CI is set, `scripts/prepare.sh test` installs it");
    say(&reason.to_string());
}

/// True if the variable `CI` says that everything is installed.
fn is_complete(ci: Option<&std::ffi::OsStr>) -> bool {
    ci.is_some_and(|value| !value.is_empty() && value != "false")
}

/// Writes a line for each reason, with the test's name.
fn say(reason: &str) {
    let thread = std::thread::current();
    let line = format!("skipped: {}: {}\n", thread.name().unwrap_or("a test"), reason.lines().next().unwrap_or_default());
    let _ = std::io::stderr().write_all(line.as_bytes());
    if let Some(file) = std::env::var_os(FILE) {
        // A short line goes in one write to a file that is appended to: lines of several programs do not mix.
        let written =
            OpenOptions::new().create(true).append(true).open(&file).and_then(|mut file| file.write_all(line.as_bytes()));
        written.unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    }
}

/// An address of this host at which nobody listens. Each test program has a loopback address of its own. So no other one is given the port
/// before the node listens there, or between two lives of the node.
pub fn free_address() -> SocketAddr {
    static GIVEN: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());
    let [_, high, middle, low] = std::process::id().to_be_bytes();
    let own = Ipv4Addr::new(127, 64 | high, middle, low);
    loop {
        let address = TcpListener::bind((own, 0)).and_then(|listener| listener.local_addr()).expect("a port of this host");
        if GIVEN.lock().expect("nobody panics with it").insert(address.port()) {
            return address;
        }
    }
}

/// The length of a bound for an idle machine on this one: as much longer as some milliseconds of work take here and now.
pub fn paced(bound: Duration) -> Duration {
    const WORK: Duration = Duration::from_millis(20);
    let worked = || Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).expect("a thread's time is never below zero");
    let (begun, before) = (Instant::now(), worked());
    while worked() - before < WORK {
        std::hint::spin_loop();
    }
    bound.mul_f64((begun.elapsed().as_secs_f64() / WORK.as_secs_f64()).max(1.0))
}

/// A bound of a wait, which begins with this. The machine's pace is measured when the bound of an idle one is over, and not before.
pub struct Patience {
    begun: Instant,
    bound: Duration,
    paced: Duration,
}

impl Patience {
    /// Begins a wait of at most `bound` on an idle machine.
    pub fn new(bound: Duration) -> Patience {
        Patience { begun: Instant::now(), bound, paced: bound }
    }

    /// True once the wait has taken as long as the machine's pace allows.
    pub fn is_over(&mut self) -> bool {
        if self.begun.elapsed() > self.paced {
            self.paced = paced(self.bound);
        }
        self.begun.elapsed() > self.paced
    }
}

#[cfg(test)]
actors![tests::is_unable, tests::lacks_a_program];

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::words;

    pub fn is_unable() {
        super::unable("no such device\nand more");
    }

    pub fn lacks_a_program() {
        super::uninstalled("no such program");
    }

    #[test]
    fn a_skip_is_counted_and_fails_where_all_is_installed() {
        let file = std::env::temp_dir().join(format!("skipped-{}", std::process::id()));
        let play = |actor: &str, ci: &str| {
            let mut again = Command::new(std::env::current_exe().unwrap());
            let ended = again.args(words(actor)).env("CI", ci).env(super::FILE, &file).output().unwrap();
            (ended.status.success(), String::from_utf8(ended.stderr).unwrap())
        };
        let (passed, told) = play("tests::is_unable", "true");
        assert!(passed && told.contains("actor: no such device\n"), "{told}");
        assert!(play("tests::lacks_a_program", "").0 && play("tests::lacks_a_program", "false").0);
        assert!(!play("tests::lacks_a_program", "1").0);
        assert!(!play("tests::nobody", "").0, "an actor that there is not");
        let counted = std::fs::read_to_string(&file).unwrap();
        std::fs::remove_file(&file).unwrap();
        assert_eq!(counted.lines().count(), 3, "{counted}");
        assert!(counted.lines().all(|line| line.starts_with("skipped: actor: no such")), "{counted}");
    }
}
