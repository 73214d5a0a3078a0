//! Pages that are being taken from programs: for other hosts, or to make room.

use super::{Host, HostMemory, HostOutput, Manner, acknowledge, pages, taken_by_nobody};
use crate::error::Corrupt;
use crate::page::hosts::{HostId, Hosts};
use crate::page::message::{Access, Page, Ticket, ToHome, ToHost, Version};
use crate::page::word::{PageWord, State};

/// Most pages that are taken at once: as many as are asked for at once.
pub(super) const RUN_COUNT_MAX: u64 = 64;

/// Purpose of taking a page.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Why {
    /// Another host will write.
    Invalidate {
        /// Copies up to this version are not good any more.
        version: Version,
        /// The host that waits for it; the home if none.
        tell: Option<HostId>,
    },
    /// Another host gets a copy, or the page.
    Forward {
        /// The version that is owned.
        era: Version,
        /// The host that gets it.
        to: HostId,
        /// For what request.
        ticket: Ticket,
        /// The access for it.
        access: Access,
    },
    /// The home gets it.
    Recall {
        /// The version that is owned.
        era: Version,
        /// True if a copy stays.
        keeps: bool,
    },
    /// There is no room for it.
    Evict {
        /// Its word before.
        was: PageWord,
    },
    /// All holders of its bytes get what was stored to it; the page stays.
    Flush {
        /// The version that is owned.
        era: Version,
    },
}

impl Why {
    fn manner(&self, home: usize) -> Result<Manner, Corrupt> {
        let (keeps, wants_bytes) = match self {
            Why::Invalidate { .. } => (false, false),
            Why::Forward { access, .. } => (*access == Access::Read, true),
            Why::Recall { keeps, .. } => (*keeps, true),
            Why::Evict { was } => (false, was.state()? == State::Owned),
            Why::Flush { .. } => (true, true),
        };
        Ok(Manner { home, keeps, wants_bytes })
    }
}

impl<B: Clone> Host<B> {
    /// A page that is marked is to be taken: by the next [`Host::turn`], with its neighbours.
    pub(super) fn begin_take(&mut self, page: Page, why: Why) {
        self.takes.insert(page, why);
    }

    /// Hears messages that waited for pages that are filled by now. Takes the marked pages that nobody maps at this moment, then hears
    /// messages that waited for that. Returns true if there were any.
    pub fn turn<P: HostMemory<Bytes = B>>(&mut self, place: &mut P, outputs: &mut Vec<HostOutput<B>>) -> Result<bool, Corrupt> {
        let filled: Vec<Page> = self.filling.extract_if(.., |page| !place.look(*page).is_being_filled()).collect();
        let heard = filled.iter().try_for_each(|page| self.act_on_waiting(place, *page, outputs));
        let is_flushed = |page: &Page| matches!(self.takes.get(page), Some(Why::Flush { .. }));
        let clear: Vec<Page> = self.takes.keys().copied().filter(|page| !is_flushed(page) && place.is_clear(*page)).collect();
        let taken = self.take_all(place, &clear, outputs);
        let flushed = self.go_on_flushing(place, outputs);
        heard.and(taken)?;
        Ok(flushed? || !filled.is_empty() || !clear.is_empty())
    }

    /// True if [`Host::turn`] would do something.
    #[cfg(test)]
    pub(in crate::page) fn may_turn(&self, place: &impl HostMemory<Bytes = B>) -> bool {
        let is_filled = self.filling.iter().any(|page| !place.look(*page).is_being_filled());
        let is_flushed = |page: &Page| matches!(self.takes.get(page), Some(Why::Flush { .. }));
        is_filled || self.may_flush(place) || self.takes.keys().any(|page| !is_flushed(page) && place.is_clear(*page))
    }

    /// Takes pages, ascending, that nobody maps.
    fn take_all<P: HostMemory<Bytes = B>>(
        &mut self,
        place: &mut P,
        clear: &[Page],
        outputs: &mut Vec<HostOutput<B>>,
    ) -> Result<(), Corrupt> {
        let mut rest = clear;
        while let Some((&Page(first), _)) = rest.split_first() {
            let manner = |page: Page| self.takes.get(&page).ok_or_else(taken_by_nobody)?.manner(place.home_of(page));
            let of_first = manner(Page(first))?;
            let mut count = 1;
            while let Some(&next) = rest.get(count as usize)
                && next.0 == first + count
                && count < RUN_COUNT_MAX
                && manner(next)? == of_first
            {
                count += 1;
            }
            let mut bytes = place.take(first..first + count, of_first).into_iter().flatten();
            for page in first..first + count {
                self.publish(place, Page(page), bytes.next(), outputs)?;
            }
            rest = &rest[count as usize..];
        }
        clear.iter().try_for_each(|page| self.act_on_waiting(place, *page, outputs))
    }

    /// Publishes a page that has been taken: in its word, and to the host or home that wanted it.
    pub(super) fn publish<P: HostMemory<Bytes = B>>(
        &mut self,
        place: &mut P,
        page: Page,
        bytes: Option<B>,
        outputs: &mut Vec<HostOutput<B>>,
    ) -> Result<(), Corrupt> {
        let Some(why) = self.takes.remove(&page) else { return Ok(()) };
        if let Why::Flush { era } = why {
            return self.publish_flushed(place, (page, era), bytes, outputs);
        }
        let floor = match &why {
            Why::Invalidate { version, .. } => Some(*version),
            Why::Forward { era, access: Access::Write, .. } | Why::Recall { era, keeps: false } => Some(*era),
            Why::Evict { was } => Some(was.version().prev()),
            Why::Forward { .. } | Why::Recall { .. } | Why::Flush { .. } => None,
        };
        match floor {
            Some(floor) => place.change(page, |word| word.drop_taken(floor))?,
            None => place.change(page, PageWord::keep_taken)?,
        }
        place.on_taken(&why);
        match why {
            Why::Invalidate { version, tell } => outputs.push(acknowledge(place, page, version, tell)),
            Why::Forward { era, to, ticket, access } => {
                let firm = access == Access::Write;
                let version = if firm { era.next() } else { era };
                let message = ToHost::Grant { ticket, version, access, has_bytes: true, awaits: Hosts::NONE, firm };
                outputs.push(HostOutput::Host { to, page, message, bytes: bytes.clone() });
                if access == Access::Read {
                    outputs.push(HostOutput::Home { page, message: ToHome::WriteBack { version: era, keeps: true }, bytes });
                }
            }
            Why::Recall { era, keeps } => {
                outputs.push(HostOutput::Home { page, message: ToHome::WriteBack { version: era, keeps }, bytes });
            }
            Why::Evict { was } if was.state()? == State::Owned => {
                let message = ToHome::WriteBack { version: was.version(), keeps: false };
                outputs.push(HostOutput::Home { page, message, bytes });
            }
            Why::Evict { .. } | Why::Flush { .. } => {}
        }
        Ok(())
    }

    /// Begins to evict a page. Returns false where there was none to evict.
    ///
    /// **Cost**: a copy goes without a message (the home may send one invalidation in vain); an owned page goes home.
    pub fn evict<P: HostMemory<Bytes = B>>(&mut self, place: &mut P, page: Page) -> Result<bool, Corrupt> {
        if self.takes.contains_key(&page) {
            return Ok(false);
        }
        let was = place.change(page, PageWord::take_to_evict)?;
        if let Some(was) = was {
            self.begin_take(page, Why::Evict { was });
        }
        Ok(was.is_some())
    }

    /// Lets go of all pages, or of those of one home. Returns whether all are home, or on their way.
    pub fn empty<P: HostMemory<Bytes = B>>(
        &mut self,
        place: &mut P,
        of: Option<usize>,
        outputs: &mut Vec<HostOutput<B>>,
    ) -> Result<bool, Corrupt> {
        let is_meant = |page: &Page| place.look(*page) != PageWord::NEVER && of.is_none_or(|home| place.home_of(*page) == home);
        let here: Vec<Page> = pages(place).filter(is_meant).collect();
        for page in &here {
            self.evict(place, *page)?;
        }
        self.turn(place, outputs)?;
        Ok(here.iter().all(|page| matches!(place.look(*page).state(), Ok(State::Absent) | Err(_))))
    }

    /// Gives up all pages of a home that is back. Nobody here gets a page of it, and pages that this host owns go there. Returns true if
    /// all are home, or on their way. Then this host leaves. A page to write that still comes to it under its old name goes straight back;
    /// anything else is dropped.
    pub fn hand_over<P: HostMemory<Bytes = B>>(
        &mut self,
        place: &mut P,
        home: usize,
        outputs: &mut Vec<HostOutput<B>>,
    ) -> Result<bool, Corrupt> {
        self.on_home_lost(place, home);
        self.empty(place, Some(home), outputs)
    }
}
