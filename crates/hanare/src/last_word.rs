//! End of a whole job by a rank: its last word to the launcher, on an abstract Unix socket that the launcher's environment names.
//!
//! ```text
//! rank -- job (16 bytes), rank (4), status (4), little-endian --> launcher
//!      <-- one byte: it was taken ------------------------------
//! ```
//!
//! The socket's name is readable by every user of the host; the job's number is not. So a word counts only with the job's number, from a
//! process of the same user or root.

use hanare_fabric::settings;
use hanare_protocol::id::{JobId, JobRank, Rank};
use rustix::net::sockopt::socket_peercred;
use rustix::process::{Uid, geteuid};
use std::io::{self, Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::time::Duration;

/// The variable with the socket's name.
const VARIABLE: &str = "HANARE_LAUNCHER";

/// Time that either side waits for the other: they are on one host, and a stranger may say nothing.
const PATIENCE: Duration = Duration::from_millis(500);

const WORD_LEN: usize = 24;

/// The launcher's end.
#[derive(Debug)]
pub struct LastWords {
    listener: UnixListener,
    name: String,
    job: JobId,
}

impl LastWords {
    /// Listens for ranks of this job on this host.
    ///
    /// **Errors**: the system's, where no socket can be made.
    pub fn listen(job: JobId) -> io::Result<LastWords> {
        let random = hanare_memory::random::bytes().map_err(|error| io::Error::other(error.to_string()))?;
        let name = format!("hanare-launch-{:016x}", u64::from_le_bytes(random));
        let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name)?)?;
        Ok(LastWords { listener, name, job })
    }

    /// The variable that tells ranks where to speak.
    pub fn variable(&self) -> (&'static str, String) {
        (VARIABLE, self.name.clone())
    }

    /// Gives each word to `each`, which takes the rank and the status that it chose, until `each` returns false. Never returns before.
    pub fn hear(self, mut each: impl FnMut(Rank, i32) -> bool) {
        for stream in self.listener.incoming() {
            let word = stream.and_then(|mut stream| Ok((take(&mut stream, self.job)?, stream)));
            let Ok((Some((rank, status)), mut stream)) = word else { continue };
            let goes_on = each(rank, status);
            // The rank may be gone by now.
            let _ = stream.write_all(&[1]);
            if !goes_on {
                return;
            }
        }
    }
}

/// The word of a connection, if it is one for this job.
fn take(stream: &mut UnixStream, job: JobId) -> io::Result<Option<(Rank, i32)>> {
    let user = socket_peercred(&*stream)?.uid;
    if user != geteuid() && user != Uid::ROOT {
        return Ok(None);
    }
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut word = [0; WORD_LEN];
    stream.read_exact(&mut word)?;
    Ok(decode(&word).and_then(|(whose, rank, status)| (whose == job).then_some((rank, status))))
}

fn decode(word: &[u8; WORD_LEN]) -> Option<(JobId, Rank, i32)> {
    let (job, rest) = word.split_first_chunk::<16>()?;
    let (rank, status) = rest.split_first_chunk::<4>()?;
    let status = i32::from_le_bytes(*status.first_chunk()?);
    Some((JobId(u128::from_le_bytes(*job)), Rank(u32::from_le_bytes(*rank)), status))
}

fn encode(who: JobRank, status: i32) -> [u8; WORD_LEN] {
    let mut word = [0; WORD_LEN];
    word[..16].copy_from_slice(&who.job.0.to_le_bytes());
    word[16..20].copy_from_slice(&who.rank.0.to_le_bytes());
    word[20..].copy_from_slice(&status.to_le_bytes());
    word
}

/// Tells the launcher that this rank ends its job; returns whether a launcher took it.
pub(crate) fn tell(who: JobRank, status: i32) -> bool {
    settings::text(VARIABLE).is_some_and(|name| say(&name, &encode(who, status)).is_ok())
}

fn say(name: &str, word: &[u8]) -> io::Result<()> {
    let mut stream = UnixStream::connect_addr(&SocketAddr::from_abstract_name(name)?)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(word)?;
    stream.read_exact(&mut [0])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn a_word_counts_with_the_number_of_the_job_alone() {
        let job = JobId(0x1234_5678_9abc_def0_1122_3344_5566_7788);
        let words = LastWords::listen(job).unwrap();
        let (_, name) = words.variable();
        let (sender, heard) = channel();
        let thread = std::thread::spawn(move || words.hear(|rank, status| sender.send((rank, status)).is_ok() && status != 0));
        let who = |job| JobRank { job, rank: Rank(3), ranks: 4 };
        assert!(say(&name, &encode(who(JobId(7)), 9)).is_err(), "another job's");
        assert!(say(&name, b"nonsense").is_err());
        say(&name, &encode(who(job), -1)).unwrap();
        say(&name, &encode(who(job), 0)).unwrap();
        thread.join().unwrap();
        assert_eq!(heard.iter().collect::<Vec<_>>(), [(Rank(3), -1), (Rank(3), 0)]);
    }
}
