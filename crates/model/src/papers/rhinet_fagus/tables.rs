//! The two tables of an interface: where the memory of a GID begins, and which physical page lies behind a virtual one.
//!
//! Processes hand over virtual addresses and (GID, offset); DMA wants physical pages. Neighbours in virtual memory are no
//! neighbours in physical memory, so a transfer is cut at every page.
use std::collections::BTreeMap;

/// Why an interface refuses an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unknown {
    /// No process registered this GID.
    Gid(u32),
    /// No page of a registered range.
    Page(u64),
}

/// The tables of one interface.
#[derive(Clone, Debug)]
pub struct Tables {
    page_bytes: u64,
    gids: BTreeMap<u32, u64>,
    pages: BTreeMap<u64, u64>,
    next_page: u64,
    lookups: u64,
}

/// Physical pages that lie between those of two neighbours: any number but one shows that they are none.
const APART: u64 = 7;

impl Tables {
    /// Empty tables for pages of this size.
    pub fn new(page_bytes: u64) -> Tables {
        Tables { page_bytes, gids: BTreeMap::new(), pages: BTreeMap::new(), next_page: 0, lookups: 0 }
    }

    /// A process registers `len_bytes` from the virtual address `start` on under a GID.
    pub fn register(&mut self, gid: u32, start: u64, len_bytes: u64) {
        self.gids.insert(gid, start);
        let (first, last) = (start / self.page_bytes, (start + len_bytes.max(1) - 1) / self.page_bytes);
        for page in first..=last {
            self.next_page += APART;
            self.pages.insert(page, self.next_page);
        }
    }

    /// The virtual address of a (GID, offset): one look-up.
    ///
    /// **Errors**: [`Unknown::Gid`].
    pub fn of_gid(&mut self, gid: u32, offset: u64) -> Result<u64, Unknown> {
        self.lookups += 1;
        self.gids.get(&gid).map(|start| start + offset).ok_or(Unknown::Gid(gid))
    }

    /// The physical address behind a virtual one: one look-up.
    ///
    /// **Errors**: [`Unknown::Page`].
    // FEATURE: RF-F3
    pub fn physical(&mut self, address: u64) -> Result<u64, Unknown> {
        self.lookups += 1;
        let page = address / self.page_bytes;
        let physical = self.pages.get(&page).ok_or(Unknown::Page(page))?;
        Ok(physical * self.page_bytes + address % self.page_bytes)
    }

    /// Look-ups since the last call.
    pub fn take_lookups(&mut self) -> u64 {
        std::mem::take(&mut self.lookups)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // FEATURE: RF-F3
    #[test]
    fn a_virtual_page_has_its_own_physical_one_and_others_are_refused() {
        let mut tables = Tables::new(4096);
        tables.register(3, 8192, 2 * 4096);
        let first = tables.physical(8192 + 12).unwrap();
        let second = tables.physical(8192 + 4096 + 12).unwrap();
        assert_eq!((first % 4096, second % 4096), (12, 12));
        assert_ne!(first + 4096, second, "neighbours are apart");
        assert_eq!(tables.of_gid(3, 4096).and_then(|address| tables.physical(address + 12)), Ok(second));
        assert_eq!(tables.take_lookups(), 4);
        assert_eq!(tables.physical(0), Err(Unknown::Page(0)));
        assert_eq!(tables.of_gid(4, 0), Err(Unknown::Gid(4)));
    }
}
