//! Signals that a launch passes on, as events of a channel.

use super::link::Frame;
use anyhow::Result;
use hanare_protocol::id::Rank;
use rustix::process::Signal;
use signal_hook::consts::signal::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::origin::WithOrigin;
use signal_hook::low_level::siginfo::{Cause, Sent};
use std::sync::mpsc::{Receiver, Sender, channel};

/// Something that happened outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Some child ended.
    ChildEnded,
    /// A signal that concerns the ranks.
    Signal {
        /// The signal.
        signal: Signal,
        /// True if the terminal sent it, to the whole foreground group: the ranks have it already.
        from_terminal: bool,
    },
    /// A rank ends the whole job.
    Aborted {
        /// The rank.
        rank: Rank,
        /// The status that it chose.
        status: i32,
    },
    /// A message on a link: of a launcher to its deputy, or of the deputy on the host of this number to its launcher.
    Said {
        /// The sender.
        from: usize,
        /// The message; `None` when the link has ended.
        frame: Option<Frame>,
    },
}

/// Catches the signals of a launch from here on.
///
/// A thread turns them into events, so that the main thread, whose life that of its children is tied to, can wait for them with a deadline.
pub fn catch() -> Result<Receiver<Event>> {
    Ok(catch_with()?.1)
}

/// The same, with the sender for other events.
pub fn catch_with() -> Result<(Sender<Event>, Receiver<Event>)> {
    let mut signals = SignalsInfo::<WithOrigin>::new([SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH])?;
    let (sender, receiver) = channel();
    let other = sender.clone();
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        for origin in &mut signals {
            let event = match (origin.signal, Signal::from_named_raw(origin.signal)) {
                (SIGCHLD, _) => Event::ChildEnded,
                (_, Some(signal)) => Event::Signal { signal, from_terminal: !matches!(origin.cause, Cause::Sent(Sent::User)) },
                _ => continue,
            };
            if sender.send(event).is_err() {
                return;
            }
        }
    })?;
    Ok((other, receiver))
}
