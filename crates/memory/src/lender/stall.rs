//! Programs that wait for memory, by the kernel's account of pressure (PSI): of the machine, and of this process's control group.
//!
//! The kernel wakes whoever asked for it. Where it does not let this process ask, the account is read at each look.

use crate::capacity::Limit;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags, open};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::time::Duration;

/// The machine's account.
const OF_MACHINE: &str = "/proc/pressure/memory";

/// A tenth of two seconds: the shortest window that ordinary users may ask for.
const TRIGGER: &[u8] = b"some 200000 2000000\0";

/// The same share, in hundredths of a percent, of the account's last ten seconds.
const STALLED: u64 = 1_000;

/// The reason for which a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wake {
    /// The watch is to end.
    Stop,
    /// Programs wait for memory.
    Stall,
    /// The time is over.
    Time,
}

/// The accounts of pressure.
#[derive(Debug, Default)]
pub(super) struct Stalls {
    triggers: Vec<OwnedFd>,
    /// Accounts without a trigger.
    read: Vec<PathBuf>,
}

impl Stalls {
    /// Asks to be woken for the machine, and for the groups among these limits.
    pub fn new(limits: &[Limit]) -> Stalls {
        let groups = limits.iter().filter_map(|limit| Some(limit.folder.as_ref()?.join("memory.pressure")));
        let mut stalls = Stalls::default();
        for path in groups.chain([PathBuf::from(OF_MACHINE)]).filter(|path| path.exists()) {
            match trigger(&path) {
                Some(trigger) => stalls.triggers.push(trigger),
                None => stalls.read.push(path),
            }
        }
        stalls
    }

    /// Waits until one of these happens.
    pub fn wait(&mut self, stop: BorrowedFd<'_>, most: Duration) -> Wake {
        let most = Timespec { tv_sec: most.as_secs() as i64, tv_nsec: most.subsec_nanos().into() };
        let triggers = self.triggers.iter().map(|trigger| PollFd::from_borrowed_fd(trigger.as_fd(), PollFlags::PRI));
        let mut fds: Vec<PollFd<'_>> = [PollFd::from_borrowed_fd(stop, PollFlags::IN)].into_iter().chain(triggers).collect();
        // An interrupted wait is a short one.
        let _ = poll(&mut fds, Some(&most));
        let came: Vec<PollFlags> = fds.iter().map(PollFd::revents).collect();
        if !came[0].is_empty() {
            return Wake::Stop;
        }
        // A group that is gone has no account.
        let mut flags = came[1..].iter();
        self.triggers.retain(|_| !flags.next().is_some_and(|flags| flags.contains(PollFlags::ERR)));
        let is_woken = came[1..].iter().any(|flags| flags.contains(PollFlags::PRI));
        if is_woken || self.read.iter().any(|path| std::fs::read_to_string(path).is_ok_and(|text| is_stalled(&text))) {
            Wake::Stall
        } else {
            Wake::Time
        }
    }
}

fn trigger(path: &PathBuf) -> Option<OwnedFd> {
    let fd = open(path, OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty()).ok()?;
    rustix::io::write(&fd, TRIGGER).ok()?;
    Some(fd)
}

/// True if an account says that some program waited for a tenth of the last ten seconds.
fn is_stalled(account: &str) -> bool {
    let some = account.lines().find_map(|line| line.strip_prefix("some ")).unwrap_or_default();
    let share = some.split(' ').find_map(|field| field.strip_prefix("avg10="));
    let hundredths = share.and_then(|share| {
        let (whole, part) = share.split_once('.')?;
        whole.parse::<u64>().ok()?.checked_mul(100)?.checked_add(part.get(..2)?.parse().ok()?)
    });
    hundredths.is_some_and(|hundredths| hundredths >= STALLED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_is_read() {
        for (account, stalled) in [
            ("some avg10=0.00 avg60=0.00 avg300=0.00 total=0\nfull avg10=99.00 avg60=0.00 avg300=0.00 total=0\n", false),
            ("some avg10=9.99 avg60=90.00 avg300=0.00 total=5\n", false),
            ("some avg10=10.00 avg60=0.00 avg300=0.00 total=5\n", true),
            ("some avg10=100.00\n", true),
            ("some avg10=99999999999999999999.00\n", false),
            ("some avg10=7\n", false),
            ("some avg10=10.é\n", false),
            ("", false),
        ] {
            assert_eq!(is_stalled(account), stalled, "{account}");
        }
    }

    #[test]
    fn a_wait_ends_when_it_is_told_to() {
        let stop = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).unwrap();
        let mut stalls = Stalls::new(&[]);
        assert_ne!(stalls.wait(stop.as_fd(), Duration::ZERO), Wake::Stop);
        rustix::io::write(&stop, &1u64.to_ne_bytes()).unwrap();
        assert_eq!(stalls.wait(stop.as_fd(), Duration::from_secs(3600)), Wake::Stop);
    }
}
