//! Stages of commands at the home of their pages.

use super::{HomePages, Outbox, PageHome};
use hanare_protocol::Error;
use hanare_protocol::limits::{PAGE_LEN, PAGE_QUEUE_MAX};
use hanare_protocol::page::{Access, Face, Page, Refusal};
use std::time::Duration;

impl<H: HomePages> PageHome<H> {
    /// Asks for pages for a stage of a command, for which no owner keeps them. [`PageHome::next_news`] tells what comes of it.
    pub fn recall(&mut self, face: Face, pages: &[Page], access: Access, outgoing: &mut Outbox) {
        for page in pages {
            self.directory.recall(*page, face, access);
            self.drain_by(PageHome::say, outgoing);
        }
    }

    /// A stage is done with pages, or gives up.
    pub fn release(&mut self, face: Face, pages: &[Page], outgoing: &mut Outbox) {
        for page in pages {
            self.directory.release(*page, face);
            self.drain(outgoing);
        }
    }

    /// A page that a stage may use, or will not get.
    pub fn next_news(&mut self) -> Option<(Page, Face, Result<(), Error>)> {
        let (page, face, refusal) = self.news.pop_front()?;
        let refused = |refusal: Refusal| match refusal {
            Refusal::Lost => {
                let (region, offset) = (self.name.clone(), page.0 * PAGE_LEN);
                Error::PageLost { region, offset, home: self.routes.node() }
            }
            Refusal::Full => Error::LimitReached { what: "requests for one page".to_owned(), limit: PAGE_QUEUE_MAX as u64 },
        };
        Some((page, face, refusal.map_or(Ok(()), |refusal| Err(refused(refusal)))))
    }

    /// The error for a page that a host does not give within the bound.
    pub fn is_late(&self, page: Page, bound: Duration) -> Error {
        let owner = self.directory.owner(page).and_then(|owner| self.sharer(owner));
        let what = format!("a request for offset {} of region '{}'", page.0 * PAGE_LEN, self.name);
        let peer = owner.map_or_else(|| "the hosts that map it".to_owned(), |owner| owner.who.node.to_string());
        Error::Timeout { peer, what, after_ms: bound.as_millis() as u64 }
    }
}
