//! Words of shared pages that programs wait for, at the home of their region: each is looked at when its page is at home.

use super::{Life, PageWorld};
use crate::check::{Check, check};
use hanare_home::{Input, SyncOutput, Waiter};
use hanare_protocol::Error;
use hanare_protocol::id::{ClientId, Gid, Grant, Slot, User};
use hanare_protocol::limits::PAGE_LEN;
use hanare_protocol::page::Page;
use hanare_protocol::wire::sync::{SyncAnswer, SyncRequest, Wait, WaitedWord, Word};

/// A wait for the value of a page.
#[derive(Clone, Copy, Debug)]
pub(super) struct WordWait {
    page: Page,
    until: Wait,
    /// The value that was stored last when it began.
    since: u64,
    ends_ms: u64,
}

impl PageWorld {
    /// A program waits for a value: a later one, one that is there, or one that was there before and never comes again.
    pub(super) fn wait_for_word(&mut self, life: Life) -> Check {
        let page = self.pick_page(Gid(life));
        let since = self.truths[&(Gid(life), page)].last;
        let until = self.dice.pick(&[Wait::Greater, Wait::AtLeast, Wait::Less])(Word::U64(since));
        let (bound_ms, link) = (self.dice.pick(&[5, 50, 300]), self.draw());
        let wait = WordWait { page, until, since, ends_ms: self.now_ms + bound_ms };
        let process = self.processes.get_mut(&life).expect("the caller saw it");
        process.words.insert(link, wait);
        let word = WaitedWord { slot: Slot(0), grant: Grant::default(), offset: page.0 * PAGE_LEN, until };
        let request = SyncRequest::Wait { words: vec![word], bound_ms: Some(bound_ms) };
        let from = (ClientId(link), User { uid: 1000, gid: 1000 });
        self.tell(life, Input::Request { waiter: Waiter { link, seq: 1 }, from, request })?;
        if self.dice.chance(500) && self.processes.get_mut(&life).is_some_and(|process| process.words.remove(&link).is_some()) {
            self.count("waits for words given up");
            return self.tell(life, Input::LinkGone { link });
        }
        Ok(())
    }

    /// A program that waits for a word is answered.
    pub(super) fn on_word(&mut self, life: Life, output: SyncOutput) -> Check {
        let SyncOutput::Answer(Waiter { link, .. }, outcome) = output else {
            return Err(format!("life {life} says {output:?}, and nobody has a lock"));
        };
        let process = self.processes.get_mut(&life).expect("it speaks");
        let wait =
            process.words.remove(&link).ok_or_else(|| format!("life {life} answers link {link}, which waits for nothing"))?;
        let WordWait { page, until, since, ends_ms } = wait;
        match outcome {
            Ok(SyncAnswer::Word { index: 0, seen }) => {
                let last = self.truths[&(Gid(life), page)].last;
                check(until.is_met(seen), || format!("{seen} is not what {wait:?} waits for"))?;
                check((since..=last).contains(&seen), || format!("{wait:?} finds {seen}, and {last} was stored last"))?;
                self.count("words seen");
                Ok(())
            }
            Err(Error::NotInTime { .. }) => {
                self.count("words not seen in time");
                check(self.now_ms >= ends_ms, || format!("{wait:?} ends too early"))
            }
            Err(Error::PageLost { .. }) => {
                self.count("waits for words refused");
                self.judge_refusal(Gid(life), page)
            }
            Err(Error::Timeout { .. }) if self.processes[&life].is_impatient => Ok(()),
            outcome => Err(format!("{wait:?} is answered {outcome:?}")),
        }
    }
}
