//! The answer to a thread's message while it is put together: pages that this very node has, and can take at once, belong in it.
//! They save the asking host's node a letter, and the thread a wake.

use super::home::{Answers, PageBytes, Post};
use hanare_protocol::page::{Access, Page, Ticket, ToHost};
use hanare_protocol::wire::page::{Granted, Letter, Outcome};
use std::collections::BTreeMap;

/// Answers of a home, some of which say that a page comes later.
pub(super) struct Asking {
    /// What the asking host is called in letters to it.
    key: u64,
    answers: Answers,
    /// Grants that would have gone to the asking host's node, by their record.
    held: BTreeMap<usize, Post>,
}

/// What became of them.
pub(super) struct Answered {
    pub answers: Answers,
    /// Grants in the answers that the home waits for.
    pub firm: Vec<(Page, Ticket, ToHost)>,
    /// What others have to acknowledge first goes to the node after all.
    pub letters: Vec<Post>,
}

impl Asking {
    pub fn new(key: u64, answers: Answers) -> Asking {
        Asking { key, answers, held: BTreeMap::new() }
    }

    /// Keeps a letter that answers one of the records, or that a kept one waits for; gives any other back.
    pub fn keep(&mut self, post: Post) -> Option<Post> {
        let Letter::ToHost { key, page, message } = &post.letter else { return Some(post) };
        if *key != self.key {
            return Some(post);
        }
        match message {
            ToHost::Grant { ticket, has_bytes, .. } => {
                let index = self.answers.that_comes_later(*page, *ticket).filter(|_| !has_bytes || post.bytes.is_some());
                let Some(index) = index else { return Some(post) };
                self.held.insert(index, post);
                None
            }
            ToHost::Ack { from, version } => {
                let is_kept = self.held.values_mut().any(|held| match &mut held.letter {
                    Letter::ToHost { page: at, message: ToHost::Grant { version: granted, awaits, .. }, .. } => {
                        at == page && *granted == version.next() && awaits.remove(*from)
                    }
                    _ => false,
                });
                if is_kept { None } else { Some(post) }
            }
            _ => Some(post),
        }
    }

    /// The pages that came in time with bytes of their own.
    pub fn pages(&self) -> impl Iterator<Item = (Page, &PageBytes)> {
        self.held.values().filter_map(|post| match &post.letter {
            Letter::ToHost { page, .. } => Some((*page, post.bytes.as_ref()?)),
            _ => None,
        })
    }

    /// The answers, with what came in time.
    pub fn finish(self) -> Answered {
        let mut answered = Answered { answers: self.answers, firm: Vec::new(), letters: Vec::new() };
        for (index, post) in self.held {
            let Letter::ToHost { page, message, .. } = &post.letter else { continue };
            let ToHost::Grant { ticket, version, access, has_bytes, awaits, firm } = message else { continue };
            if !awaits.is_empty() {
                answered.letters.push(post);
                continue;
            }
            let outcome = if *access == Access::Write { Outcome::Write } else { Outcome::Read };
            let granted = Granted { outcome, version: *version, has_bytes: *has_bytes, firm: *firm };
            if *firm {
                answered.firm.push((*page, *ticket, message.clone()));
            }
            answered.answers.replace(index, granted, post.bytes);
        }
        answered
    }
}
