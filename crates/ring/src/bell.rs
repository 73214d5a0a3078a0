//! A doorbell: tells a sleeping process that something arrived, and costs no system call while it is awake.
//!
//! The side that waits sets a flag in shared memory, looks once more whether something has arrived, and parks. The
//! other side, after making something visible, takes the flag; only if it was set does it wake the sleeper.
//!
//! ```text
//! waiter:  flag = 1; fence; look; park           sender:  make visible; fence; if flag { flag = 0; wake }
//! ```
//!
//! Either the waiter's look sees what was made visible, or the sender sees the flag: never neither.
//!
//! Waking the sleeper is the caller's part.

use crate::words::Words;

/// The flag is the first of its words.
const WORD: usize = 0;

const AWAKE: u64 = 0;
const ASLEEP: u64 = 1;

/// The flag protocol, which calls for a wake; the part of a doorbell that model checkers see.
#[derive(Clone, Copy, Debug)]
pub struct Flag<W> {
    words: W,
}

impl<W: Words> Flag<W> {
    /// The flag in the first word of `words`.
    pub fn new(words: W) -> Flag<W> {
        Flag { words }
    }

    /// Waiter: announces sleep. The caller looks once more for what it waits for before it parks.
    pub fn doze(&self) {
        self.words.swap(WORD, ASLEEP);
        // ORDERING: pairs with the fence in `ring`: the flag is visible before the caller's next look is made.
        self.words.fence();
    }

    /// Waiter: is awake again (or did not park).
    pub fn rouse(&self) {
        self.words.store(WORD, AWAKE);
    }

    /// Sender: says if the other side sleeps and has to be woken. Earlier stores are visible to its look.
    #[inline]
    pub fn ring(&self) -> bool {
        // ORDERING: pairs with the fence in `doze`.
        self.words.fence();
        self.words.load(WORD) != AWAKE && self.words.swap(WORD, AWAKE) != AWAKE
    }
}
