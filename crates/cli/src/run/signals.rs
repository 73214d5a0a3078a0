//! Signals that a launch passes on, as events of a channel.

use anyhow::Result;
use rustix::process::Signal;
use signal_hook::consts::signal::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::origin::WithOrigin;
use signal_hook::low_level::siginfo::{Cause, Sent};
use std::sync::mpsc::{Receiver, channel};

/// Something that happened outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Some child ended.
    ChildEnded,
    /// A signal that concerns the ranks.
    Signal {
        /// Which.
        signal: Signal,
        /// Whether the terminal sent it, to the whole foreground group: the ranks have it already.
        from_terminal: bool,
    },
}

/// Catches the signals of a launch from here on.
///
/// A thread turns them into events, so that the main thread, whose life that of its children is tied to, can wait for them with a deadline.
pub fn catch() -> Result<Receiver<Event>> {
    let mut signals = SignalsInfo::<WithOrigin>::new([SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH])?;
    let (sender, receiver) = channel();
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
    Ok(receiver)
}
