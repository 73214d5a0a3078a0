//! Words that requests wait for. They are looked at after commands, which may have changed them. They are looked at every millisecond, too,
//! because programs that map them store directly. A word that hosts map is looked at when its page is at home.

use crate::events::SyncOutput;
use crate::memory::{Bytes, Memory, Need, Recall};
use crate::pages::{Asker, PageMemory, Pages};
use crate::waiter::{Waiter, deadline};
use hanare_protocol::id::Rights;
use hanare_protocol::limits::{
    LINK_WORD_COUNT_MAX, PAGE_LEN, USER_WORD_COUNT_MAX, WAIT_WORD_COUNT_MAX, WORD_LOOK_MS, WORD_WAIT_COUNT_MAX,
};
use hanare_protocol::page::{Access, Face};
use hanare_protocol::wire::sync::{SyncAnswer, WaitedWord};
use hanare_protocol::{Error, Result};
use std::collections::VecDeque;
use std::time::Duration;

/// Words looked at after a client's turn: about a microsecond's worth.
const LOOKS_PER_TURN: usize = 64;

/// Words of which one is waited for.
#[derive(Debug)]
struct Watch {
    waiter: Waiter,
    /// The program's user.
    user: u32,
    /// Never empty.
    words: Vec<WaitedWord>,
    deadline: Option<(Duration, u64)>,
    /// Next word to look at, so that none whose page comes and goes keeps others from being looked at.
    next: usize,
    /// The page of the word before that is on its way home.
    recall: Option<Face>,
}

/// Result of a look.
#[expect(clippy::large_enum_variant, reason = "it is returned once a look, and kept nowhere")]
enum Look {
    Seen(SyncAnswer),
    NotYet,
    Waits(Face),
}

#[derive(Debug, Default)]
pub(crate) struct Words {
    watches: Vec<Watch>,
    /// Begin of the next turn's looks.
    next: usize,
    /// When all were looked at last.
    looked: Option<Duration>,
}

/// Memory as words are looked at in it: the pages of some may have to come home.
pub(crate) struct WordMemory<'a, M, P: PageMemory> {
    pub now: Duration,
    pub memory: &'a M,
    pub pages: &'a mut Pages<P>,
}

/// A word, if it is as wanted and its page is at home. It is found anew each time: a region that was removed is not waited for.
fn look_at(
    word: &WaitedWord,
    index: usize,
    WordMemory { now, memory, pages }: &mut WordMemory<'_, impl Memory, impl PageMemory>,
) -> Result<Look> {
    let extent = find(word, *memory)?;
    if !extent.is_by_pages() {
        return load(word, index, &extent);
    }
    let (gid, slot, page) = (extent.gid(), extent.slot(), word.offset / PAGE_LEN);
    match pages.recall(*now, Asker::Word, Need { gid, slot, access: Access::Read, pages: vec![page] })? {
        Recall::Waits(face) => Ok(Look::Waits(face)),
        Recall::Ready(face) => {
            let look = load(word, index, &extent);
            pages.release(face);
            look
        }
    }
}

/// Its extent.
fn find<M: Memory>(word: &WaitedWord, memory: &M) -> Result<M::Extent> {
    let extent = memory.open(word.slot, word.grant, Rights::Read)?;
    let len = word.until.word().len();
    if !word.offset.is_multiple_of(len) || extent.len_bytes().checked_sub(len).is_none_or(|last| word.offset > last) {
        let reason = format!("no word of {len} bytes is at offset {} of its extent", word.offset);
        return Err(Error::BadUse { region: "of a peer".to_owned(), reason });
    }
    Ok(extent)
}

fn load(word: &WaitedWord, index: usize, extent: &impl Bytes) -> Result<Look> {
    let seen = extent.load_word(word.offset, word.until.word().len())?;
    Ok(if word.until.is_met(seen) { Look::Seen(SyncAnswer::Word { index: index as u8, seen }) } else { Look::NotYet })
}

impl Watch {
    /// Looks at its words in turn, until one is as wanted or a page is to be waited for.
    fn look(&mut self, memory: &mut WordMemory<'_, impl Memory, impl PageMemory>) -> Result<Look> {
        for _ in 0..self.words.len() {
            let at = self.next % self.words.len();
            self.next = at + 1;
            match look_at(&self.words[at], at, memory)? {
                Look::NotYet => {}
                look => return Ok(look),
            }
        }
        Ok(Look::NotYet)
    }

    /// The page that the word before waited for is at home.
    fn look_again(&self, memory: &impl Memory) -> Result<Look> {
        let at = self.next - 1;
        load(&self.words[at], at, &find(&self.words[at], memory)?)
    }
}

impl Words {
    /// A client waits for one of some words; answered at once where one is as wanted already.
    pub fn wait(
        &mut self,
        (words, wait_ms): (Vec<WaitedWord>, Option<u64>),
        (waiter, user): (Waiter, u32),
        memory: &mut WordMemory<'_, impl Memory, impl PageMemory>,
    ) -> Result<Option<SyncAnswer>> {
        let full = |what: &str, limit: usize| Err(Error::LimitReached { what: what.to_owned(), limit: limit as u64 });
        if words.is_empty() || words.len() > WAIT_WORD_COUNT_MAX {
            return full("words of one wait, of which there is at least one", WAIT_WORD_COUNT_MAX);
        }
        let mut watch = Watch { waiter, user, words, deadline: None, next: 0, recall: None };
        match watch.look(memory)? {
            Look::Seen(answer) => return Ok(Some(answer)),
            Look::NotYet => {}
            Look::Waits(face) => watch.recall = Some(face),
        }
        if self.word_count(|_| true) + watch.words.len() > WORD_WAIT_COUNT_MAX {
            return full("words of one node that are waited for", WORD_WAIT_COUNT_MAX);
        }
        if self.word_count(|other| other.waiter.link == waiter.link) + watch.words.len() > LINK_WORD_COUNT_MAX {
            return full("words of one node that one client waits for", LINK_WORD_COUNT_MAX);
        }
        if self.word_count(|other| other.user == user) + watch.words.len() > USER_WORD_COUNT_MAX {
            return full("words of one node that one user's programs wait for", USER_WORD_COUNT_MAX);
        }
        watch.deadline = wait_ms.and_then(|ms| Some((deadline(memory.now, ms)?, ms)));
        self.watches.push(watch);
        Ok(None)
    }

    fn word_count(&self, is_meant: impl Fn(&Watch) -> bool) -> usize {
        self.watches.iter().filter(|watch| is_meant(watch)).map(|watch| watch.words.len()).sum()
    }

    /// A link ended: nobody is told anything there.
    pub fn forget(&mut self, link: u64) {
        self.watches.retain(|watch| watch.waiter.link != link);
    }

    /// Number of waits.
    pub fn count(&self) -> usize {
        self.watches.len()
    }

    /// When all are to be looked at.
    pub fn deadline(&self) -> Option<Duration> {
        let next = self.looked.map_or(Duration::ZERO, |looked| looked + Duration::from_millis(WORD_LOOK_MS));
        (!self.watches.is_empty()).then_some(next)
    }

    /// Looks at some, after a turn that may have changed them.
    pub fn look_at_some(
        &mut self,
        memory: &mut WordMemory<'_, impl Memory, impl PageMemory>,
        outputs: &mut VecDeque<SyncOutput>,
    ) {
        let count = self.watches.len().min(LOOKS_PER_TURN);
        self.look(count, None, memory, outputs);
    }

    /// The page of a word is at home, or will not come.
    pub fn recalled(&mut self, face: Face, outcome: Result<()>, memory: &impl Memory, outputs: &mut VecDeque<SyncOutput>) {
        let Some(at) = self.watches.iter().position(|watch| watch.recall == Some(face)) else { return };
        let watch = &mut self.watches[at];
        watch.recall = None;
        match outcome.and_then(|()| watch.look_again(memory)) {
            Ok(Look::Seen(answer)) => outputs.push_back(SyncOutput::Answer(watch.waiter, Ok(answer))),
            Err(error) => outputs.push_back(SyncOutput::Answer(watch.waiter, Err(error))),
            Ok(Look::NotYet | Look::Waits(_)) => return,
        }
        self.watches.swap_remove(at);
    }

    /// Looks at all, if that is due.
    pub fn tick(&mut self, memory: &mut WordMemory<'_, impl Memory, impl PageMemory>, outputs: &mut VecDeque<SyncOutput>) {
        let now = memory.now;
        if self.deadline().is_some_and(|next| next <= now) {
            self.looked = Some(now);
            self.look(self.watches.len(), Some(now), memory, outputs);
        }
    }

    /// Looks at `count` of them; deadlines are looked at where the time is told.
    fn look(
        &mut self,
        count: usize,
        now: Option<Duration>,
        memory: &mut WordMemory<'_, impl Memory, impl PageMemory>,
        outputs: &mut VecDeque<SyncOutput>,
    ) {
        let mut word_count = 0;
        for _ in 0..count {
            // A turn is anybody's, and waits may be of several words.
            if now.is_none() && word_count >= LOOKS_PER_TURN {
                return;
            }
            if self.next >= self.watches.len() {
                self.next = 0;
            }
            let Some(watch) = self.watches.get_mut(self.next) else { return };
            word_count += watch.words.len();
            let is_over = |(until, _): &(Duration, u64)| now.is_some_and(|now| *until <= now);
            let look = match watch.recall {
                Some(face) => Ok(Look::Waits(face)),
                None => watch.look(memory),
            };
            if let Ok(Look::Waits(face)) = look {
                watch.recall = Some(face);
            }
            let outcome = match (look, watch.deadline.filter(is_over)) {
                (Ok(Look::Seen(answer)), _) => Ok(answer),
                (Err(error), _) => Err(error),
                (Ok(_), Some((_, after_ms))) => Err(Error::NotInTime { what: "the word".to_owned(), after_ms }),
                (Ok(_), None) => {
                    self.next += 1;
                    continue;
                }
            };
            outputs.push_back(SyncOutput::Answer(watch.waiter, outcome));
            self.watches.swap_remove(self.next);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pages::{PageTerms, PageVectors};
    use crate::vectors::Vectors;
    use hanare_protocol::id::{Gid, Grant};
    use hanare_protocol::wire::sync::{Wait, Word};

    #[test]
    fn a_turn_looks_at_so_many_words_however_many_each_waits_for() {
        let (vectors, extent) = Vectors::of(Gid(1), 4096);
        let mut pages = Pages::new(PageTerms::default(), PageVectors::default());
        let mut memory = WordMemory { now: Duration::ZERO, memory: &vectors, pages: &mut pages };
        let (slot, grant) = (extent.slot(), Grant::default());
        let word = WaitedWord { slot, grant, offset: 8, until: Wait::Equal(Word::U64(1)) };
        let mut words = Words::default();
        for seq in 0..LOOKS_PER_TURN as u64 {
            let asked = (vec![word; WAIT_WORD_COUNT_MAX], None);
            let waits = words.wait(asked, (Waiter { link: 1, seq }, 7), &mut memory);
            assert!(waits.unwrap().is_none());
        }
        let mut outputs = VecDeque::new();
        words.look_at_some(&mut memory, &mut outputs);
        assert_eq!(words.next * WAIT_WORD_COUNT_MAX, LOOKS_PER_TURN);
        memory.now = Duration::from_secs(1);
        words.tick(&mut memory, &mut outputs);
        assert!(outputs.is_empty());
    }
}
