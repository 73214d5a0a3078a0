//! Failed calls on the pool, for a program that knows only files, and the line that says why.

use hanare::Error;
use rustix::io::Errno;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Results of calls on files.
pub type Result<T, E = Errno> = std::result::Result<T, E>;

/// A line that says the same as the last is not written again within this time. A program that tries again and again would fill the log.
const SAME_LINE: Duration = Duration::from_secs(1);

/// The error number for a failed call on the pool. A failure that the program did not cause is logged, with the purpose of the call.
pub fn refused(what: &str, error: &Error) -> Errno {
    match error {
        Error::PoolFull { .. } => Errno::NOSPC,
        Error::LimitReached { .. } => Errno::NOSPC,
        Error::QuotaExceeded { .. } => Errno::DQUOT,
        Error::NoPermission { .. } => Errno::ACCESS,
        Error::NotTrusted { .. } => {
            failed(what, &error.to_string());
            Errno::ACCESS
        }
        Error::UnknownRegion { .. } => Errno::NOENT,
        Error::BadUse { .. } => Errno::ROFS,
        other => {
            failed(what, &other.to_string());
            Errno::IO
        }
    }
}

/// Logs the cause of a program's I/O error.
pub fn failed(what: &str, reason: &str) {
    static LAST: Mutex<Option<(Instant, String)>> = Mutex::new(None);
    let line = format!("{what}: {reason}");
    let mut last = LAST.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if last.as_ref().is_some_and(|(when, said)| *said == line && when.elapsed() < SAME_LINE) {
        return;
    }
    tracing::error!("{line}");
    *last = Some((Instant::now(), line));
}
