//! Hooks of another language around steps that wait for a node, or move much: Python releases its interpreter's lock.

/// Hooks around such steps. No lock of a dictionary is held while one is called.
pub trait Waiter: Send + Sync {
    /// True where a step is run as it is, whether it lasts or not: nobody needs to know.
    const IS_PLAIN: bool = false;

    /// Runs a step that may last.
    fn wait<T: Send>(&self, step: impl FnOnce() -> T + Send) -> T;

    /// True to go on; asked between the parts of long work. On false the call ends with [`NotInTime`](hanare::Error::NotInTime).
    fn goes_on(&self) -> bool {
        true
    }
}

/// Waits where it was called.
#[derive(Clone, Copy, Debug, Default)]
pub struct Here;

impl Waiter for Here {
    const IS_PLAIN: bool = true;

    fn wait<T: Send>(&self, step: impl FnOnce() -> T + Send) -> T {
        step()
    }
}

/// Runs a step, by the waiter where it may last.
pub fn step<W: Waiter, T: Send>(waiter: &W, may_last: impl FnOnce() -> bool, work: impl FnOnce() -> T + Send) -> T {
    if !W::IS_PLAIN && may_last() { waiter.wait(work) } else { work() }
}
