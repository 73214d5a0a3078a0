//! Messages on copies of extents: between the coordinator and the nodes that hold an extent, and from home to copy.
//!
//! ```text
//! coordinator  -- ToNode::Holder -->  home, copies        home  -- CopyFrame::ToCopy -->    copy      a connection that the home makes
//!              <-- FromNode::Holder --                          <-- CopyFrame::FromCopy --
//! ```
//!
//! The rules are those of [`crate::copies`].

use super::Malformed;
use super::command::Op;
use super::queue::QueueCall;
use crate::copies::{DigestCall, DoneCalls, HolderSet, Once, PageChange, PageTable, Position, Term, UpdateCall};
use crate::heap::{HEAP_ANSWER_LEN, Heap, HeapCall};
use crate::id::{Gid, NodeId};
use crate::limits::{PAGE_LEN, STAGE_LEN, WRITE_RANGE_COUNT_MAX};
use crate::page::{Page, Version};
use crate::queue::PortTable;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// An extent of a region with copies, as all of its holders name it. Each has it in a slot of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CopiedExtent {
    /// The region.
    pub gid: Gid,
    /// Position of the extent among those of the region's layout.
    pub index: u32,
}

/// The coordinator's message to a node that holds an extent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToHolder {
    /// The holders have changed.
    Set(HolderSet),
    /// A home will be elected for this term.
    Freeze {
        /// The term.
        term: Term,
    },
    /// The node is home.
    Elect {
        /// The holders.
        set: HolderSet,
        /// Positions of the other copies, as far as is known.
        has: BTreeMap<NodeId, Position>,
        /// The home before has stopped, and knew that no program has locks at its bytes.
        stopped: bool,
    },
    /// Another node is to be home. The home of this set stops when all copies have its writes.
    Release(HolderSet),
    /// The home makes a copy on a node, which has an empty extent for it.
    Make {
        /// The node.
        node: NodeId,
        /// The order by which the node has the extent.
        order: u64,
    },
}

/// A holder's message to the coordinator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FromHolder {
    /// The copy takes no writes of lower terms.
    IsFrozen {
        /// The term of the home that will be elected.
        term: Term,
        /// The last write that the copy has.
        position: Position,
    },
    /// The home wants to go on without a copy that does not answer.
    Drop {
        /// The home's term.
        term: Term,
        /// The copy.
        node: NodeId,
    },
    /// The home has made a copy.
    Admit {
        /// The home's term.
        term: Term,
        /// The copy.
        node: NodeId,
        /// The order by which the node has the extent.
        order: u64,
    },
    /// The home has stopped, and all copies have its writes.
    Released {
        /// The home's term.
        term: Term,
        /// The next home cannot know all about the locks at its bytes. Their first takers there are told that they were abandoned.
        leaves_doubt: bool,
    },
    /// The home does not stop for another now, because programs have locks or groups at its bytes.
    Stays {
        /// The home's term.
        term: Term,
    },
    /// Bytes could not be written here: this node is no holder any more.
    Broken,
}

/// A message on a connection of a node that has homes, to a node that has their copies. The connection's greeting names the first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CopyFrame {
    /// From home to copy.
    ToCopy(CopiedExtent, ToCopy),
    /// From copy to home.
    FromCopy(CopiedExtent, FromCopy),
}

/// A home's message to a copy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToCopy {
    /// A write.
    Write {
        /// The home's term.
        term: Term,
        /// The write's place.
        position: Position,
        /// All copies have the writes up to this one.
        stable: Position,
        /// The write.
        entry: Arc<ExtentWrite>,
    },
    /// Asks how far the copy is.
    Ask {
        /// The home's term.
        term: Term,
    },
    /// The copy begins anew.
    Make {
        /// The home's term.
        term: Term,
        /// The bytes come as of this write.
        at: Position,
    },
    /// Bytes of a copy that is made.
    Range {
        /// The home's term.
        term: Term,
        /// Number of the range: each has [`STAGE_LEN`] bytes, the last one the rest.
        range: u64,
        /// The bytes.
        #[serde(with = "crate::packed_bytes")]
        bytes: Vec<u8>,
    },
    /// All ranges have been sent.
    Made {
        /// The home's term.
        term: Term,
        /// The calls whose updates were done.
        done: DoneCalls,
        /// The heap of the region, where that begins in the extent.
        heap: Option<Heap>,
        /// The ports of arrays of queues in the extent that are in use.
        ports: Vec<PortTable>,
    },
    /// A part of stores that waits at the home for the last one, for a copy that is made. Such parts come just before [`ToCopy::Made`]. Since
    /// version 28.
    Pending {
        /// The home's term.
        term: Term,
        /// The part.
        entry: Arc<ExtentWrite>,
    },
    /// The hosts that map the extent coherently, for a copy that is made, where there are any. It comes before [`ToCopy::Made`]. Since version 28.
    Pages {
        /// The home's term.
        term: Term,
        /// The hosts, and their pages.
        table: PageTable,
    },
}

/// A copy's message to its home.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FromCopy {
    /// The copy has all writes up to one.
    Has {
        /// The home's term.
        term: Term,
        /// The last one.
        position: Position,
    },
    /// Digests that the home asked for in its writes.
    Digests {
        /// The home's term.
        term: Term,
        /// The place of the call among the writes.
        position: Position,
        /// The digests.
        #[serde(with = "crate::packed_bytes")]
        digests: Vec<u8>,
    },
    /// A range has come; the next one may follow.
    Took {
        /// The home's term.
        term: Term,
        /// Number of the range.
        range: u64,
    },
    /// The sender is no home any more.
    Stale {
        /// The term that began meanwhile.
        term: Term,
    },
}

/// A write of an extent: its home and its copies do the same to their bytes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ExtentWrite {
    /// A put, an update, a fetch, or a compare-and-swap. A fill and the target of a copy come as puts.
    pub op: Op,
    /// The ranges in order: the first byte of each in the extent, and the number of bytes.
    pub ranges: Vec<(u64, u64)>,
    /// The operand: bytes for all ranges in a row, or one operand for all elements.
    #[serde(with = "crate::packed_bytes")]
    pub operand: Vec<u8>,
    /// The call that it is a part of, where it must not be done twice.
    pub once: Option<Once>,
    /// A call that has its place among the writes. It comes with a put of no bytes, but for a part of stores and a page that came home.
    pub call: Option<ExtentCall>,
}

/// A call that all holders of an extent carry out at one place in the order of its writes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ExtentCall {
    /// On the heap of the region, which begins in the extent.
    Heap(HeapCall),
    /// The digests of some pages.
    Digests(DigestCall),
    /// On an array of queues.
    Queue(QueueCall),
    /// A part of stores that count together. It comes with their bytes. Since version 28.
    Store {
        /// True for the last part of its call: all have their effect.
        is_last: bool,
    },
    /// The last part of those stores will not come. Since version 28.
    ForgetStores(UpdateCall),
    /// A page came home from its owner, in that version. It comes with the page's bytes. Since version 28.
    Page(Version),
    /// The hosts that map the extent change. Since version 28.
    Hosts(PageChange),
}

impl ExtentWrite {
    /// A put of bytes.
    pub fn put(ranges: Vec<(u64, u64)>, operand: Vec<u8>) -> ExtentWrite {
        ExtentWrite { op: Op::Put, ranges, operand, once: None, call: None }
    }

    /// A call on the heap of the region, which begins in the extent.
    pub fn heap(call: HeapCall, once: Option<UpdateCall>) -> ExtentWrite {
        let once = once.map(|call| Once { call, at: 0 });
        ExtentWrite { once, ..ExtentWrite::call(ExtentCall::Heap(call)) }
    }

    /// A call on the extent.
    pub fn call(call: ExtentCall) -> ExtentWrite {
        ExtentWrite { call: Some(call), ..ExtentWrite::put(Vec::new(), Vec::new()) }
    }

    /// True if it must not be done twice.
    pub fn is_once(&self) -> bool {
        self.op.is_once() || matches!(self.call, Some(ExtentCall::Heap(_)))
    }

    /// The write without its first `len` bytes, which were done: whole elements.
    pub fn skip(mut self, len: u64) -> ExtentWrite {
        let mut left = len;
        for (at, range_len) in &mut self.ranges {
            let skipped = left.min(*range_len);
            (*at, *range_len, left) =
                (at.saturating_add(skipped), range_len.saturating_sub(skipped), left.saturating_sub(skipped));
        }
        self.ranges.retain(|(_, range_len)| *range_len > 0);
        if self.op.streams_operand() {
            let skipped = len.saturating_mul(self.op.operand_factor()).min(self.operand.len() as u64);
            self.operand.drain(..skipped as usize);
        }
        self.once = self.once.map(|once| once.behind(len));
        self
    }

    /// The page that came home, and its version.
    pub fn page(&self) -> Option<(Page, Version)> {
        let (Some(ExtentCall::Page(version)), [(at, len)]) = (&self.call, &self.ranges[..]) else { return None };
        (at.is_multiple_of(PAGE_LEN) && *len <= PAGE_LEN).then(|| (Page(at / PAGE_LEN), *version))
    }

    /// True if it has its effect at holders that speak version 28 alone.
    pub fn is_since_28(&self) -> bool {
        matches!(
            self.call,
            Some(ExtentCall::Store { .. } | ExtentCall::ForgetStores(_) | ExtentCall::Page(_) | ExtentCall::Hosts(_))
        )
    }

    /// Bytes of all ranges; of a call on a heap, those of its answers.
    pub fn len_bytes(&self) -> u64 {
        match &self.call {
            Some(ExtentCall::Heap(call)) => HEAP_ANSWER_LEN.saturating_mul(call.wishes.len() as u64),
            Some(ExtentCall::Digests(_) | ExtentCall::Queue(_) | ExtentCall::ForgetStores(_) | ExtentCall::Hosts(_)) => 0,
            None | Some(ExtentCall::Store { .. } | ExtentCall::Page(_)) => {
                self.ranges.iter().map(|(_, len)| *len).fold(0, u64::saturating_add)
            }
        }
    }

    /// Bytes of memory that it takes, its ranges included.
    pub fn memory_len(&self) -> u64 {
        let of_call = if let Some(ExtentCall::Queue(call)) = &self.call { call.memory_len() } else { 0 };
        let of_ranges = size_of_val(&self.ranges[..]) as u64;
        (self.operand.len() as u64).saturating_add(of_ranges).saturating_add(of_call)
    }

    /// Refuses a write that no home sends: beyond the extent, or with an operand of another length than its ranges.
    ///
    /// **Errors**: [`Malformed`], with the reason.
    pub fn check(&self, extent_len: u64) -> Result<(), Malformed> {
        match self.call {
            Some(ExtentCall::Store { .. }) if self.op != Op::Put || self.once.is_none() => {
                return Err(Malformed("stores that count together, and have no number"));
            }
            Some(ExtentCall::Page(_)) if self.op != Op::Put || self.once.is_some() || self.page().is_none() => {
                return Err(Malformed("a page that came home, and is none"));
            }
            _ => {}
        }
        let has_bytes = matches!(self.call, Some(ExtentCall::Store { .. } | ExtentCall::Page(_)));
        if let Some(call) = self.call.as_ref().filter(|_| !has_bytes) {
            if self.op != Op::Put || !self.ranges.is_empty() || !self.operand.is_empty() {
                return Err(Malformed("a call on an extent that also writes"));
            }
            return match call {
                ExtentCall::Heap(call) => call.check(),
                ExtentCall::Digests(_) if self.once.is_some() => Err(Malformed("digests that count once")),
                ExtentCall::Digests(call) => call.check(extent_len),
                // Its ports have numbers of their own.
                ExtentCall::Queue(_) if self.once.is_some() => Err(Malformed("a call on queues that counts once by its program")),
                ExtentCall::Queue(call) => call.check(extent_len),
                ExtentCall::Store { .. } | ExtentCall::Page(_) => Ok(()),
                ExtentCall::Hosts(_) if self.once.is_some() => Err(Malformed("hosts that change once")),
                ExtentCall::Hosts(change) => change.check(),
                ExtentCall::ForgetStores(_) if self.once.is_some() => Err(Malformed("the end of stores that counts once")),
                ExtentCall::ForgetStores(_) => Ok(()),
            };
        }
        let (op, len) = (self.op, self.len_bytes());
        if !op.writes() || !matches!(op, Op::Put | Op::Update(_) | Op::Fetch(_) | Op::CompareAndSwap(_)) {
            return Err(Malformed("a write that is none"));
        }
        let lies_inside = |(at, len): &(u64, u64)| *len > 0 && at.checked_add(*len).is_some_and(|end| end <= extent_len);
        if self.ranges.len() > WRITE_RANGE_COUNT_MAX
            || self.ranges.is_empty()
            || len > STAGE_LEN as u64
            || !self.ranges.iter().all(lies_inside)
        {
            return Err(Malformed("a write without bytes, with too many, or beyond its extent"));
        }
        let unit = op.element().map_or(1, |element| element.len());
        let is_whole = |(at, len): &(u64, u64)| at.is_multiple_of(unit) && len.is_multiple_of(unit);
        if !self.ranges.iter().all(is_whole) {
            return Err(Malformed("a write of parts of elements"));
        }
        match op.operand_len(len) {
            Some(operand_len) if operand_len == self.operand.len() as u64 => Ok(()),
            _ => Err(Malformed("a write whose operand is not as long as its ranges say")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::element::{Element, Operator};
    use crate::heap::HeapWish;
    use crate::limits::HEAP_WISH_COUNT_MAX;
    use crate::wire::command::Update;

    fn entry(op: Op, ranges: &[(u64, u64)], operand_len: usize) -> ExtentWrite {
        ExtentWrite { op, ranges: ranges.to_vec(), operand: vec![1; operand_len], once: None, call: None }
    }

    #[test]
    fn a_write_goes_on_behind_its_part_that_was_done() {
        let swap = entry(Op::CompareAndSwap(Element::U64), &[(8, 16), (64, 8)], 48);
        let rest = swap.skip(8);
        assert_eq!((&rest.ranges[..], rest.operand.len()), (&[(16, 8), (64, 8)][..], 32));
        let rest = rest.skip(8);
        assert_eq!((&rest.ranges[..], rest.operand.len(), rest.check(4096)), (&[(64, 8)][..], 16, Ok(())));
        let add = Op::Update(Update { operator: Operator::Add, element: Element::U64, is_same: true });
        let rest = entry(add, &[(0, 16)], 8).skip(8);
        assert_eq!((&rest.ranges[..], rest.operand.len()), (&[(8, 8)][..], 8));
    }

    #[test]
    fn a_write_that_no_home_sends_is_refused() {
        let add = |is_same| Op::Update(Update { operator: Operator::Add, element: Element::U64, is_same });
        let load = Op::Fetch(Update { operator: Operator::Load, element: Element::U64, is_same: false });
        let good = [
            entry(Op::Put, &[(0, 5), (4091, 5)], 10),
            entry(add(false), &[(8, 8), (0, 16)], 24),
            entry(add(true), &[(8, 8), (0, 16)], 8),
            entry(Op::CompareAndSwap(Element::U64), &[(8, 8)], 16),
        ];
        assert!(good.iter().all(|entry| entry.check(4096).is_ok()));
        let bad = [
            entry(Op::Get, &[(0, 8)], 0),
            entry(Op::CopyTo, &[(0, 8)], 8),
            entry(load, &[(0, 8)], 8),
            entry(Op::Put, &[], 0),
            entry(Op::Put, &[(4090, 8)], 8),
            entry(Op::Put, &[(u64::MAX, 8)], 8),
            entry(Op::Put, &[(0, 8)], 7),
            entry(Op::Put, &[(0, 0), (0, 8)], 8),
            entry(add(false), &[(4, 8)], 8),
            entry(add(true), &[(0, 8)], 16),
            entry(Op::Put, &[(0, u64::MAX), (0, u64::MAX)], 8),
        ];
        assert!(bad.iter().all(|entry| entry.check(4096).is_err()));
        let heap = |wishes| HeapCall { region_len: u64::MAX, wishes };
        let most = heap(vec![HeapWish::Free { offset: u64::MAX }; HEAP_WISH_COUNT_MAX]);
        let digests = DigestCall { offset: 0, len: 4096, seed: [0; 16], drops: true };
        assert_eq!(ExtentWrite::heap(most, None).check(4096), Ok(()));
        assert!(ExtentWrite::heap(heap(Vec::new()), None).check(4096).is_err());
        assert_eq!(ExtentWrite::call(ExtentCall::Digests(digests)).check(4096), Ok(()));
        assert!(ExtentWrite::call(ExtentCall::Digests(digests)).check(4095).is_err());
        let call = UpdateCall { client: 1, sequence: 0, number: 1, is_repeat: false };
        let part = |entry: ExtentWrite| {
            let store = Some(ExtentCall::Store { is_last: false });
            ExtentWrite { call: store, once: Some(Once { call, at: 0 }), ..entry }
        };
        assert_eq!(part(entry(Op::Put, &[(0, 5), (4091, 5)], 10)).check(4096), Ok(()));
        let bad = [
            entry(Op::Put, &[], 0),
            entry(Op::Put, &[(0, 8)], 7),
            entry(Op::Put, &[(4090, 8)], 8),
            entry(add(true), &[(0, 8)], 8),
        ];
        assert!(bad.into_iter().all(|entry| part(entry).check(4096).is_err()));
        assert!(ExtentWrite { once: None, ..part(entry(Op::Put, &[(0, 8)], 8)) }.check(4096).is_err());
        assert_eq!(ExtentWrite::call(ExtentCall::ForgetStores(call)).check(4096), Ok(()));
        for entry in [entry(Op::Put, &[(0, 8)], 8), entry(Op::Put, &[], 8), entry(Op::Get, &[], 0)] {
            for call in [
                ExtentCall::Heap(heap(vec![HeapWish::Free { offset: 0 }])),
                ExtentCall::Digests(digests),
                ExtentCall::ForgetStores(call),
            ] {
                assert!(ExtentWrite { call: Some(call), ..entry.clone() }.check(4096).is_err());
            }
        }
    }

    #[test]
    fn a_write_survives_its_encoding() {
        let entry = entry(Op::CompareAndSwap(Element::U64), &[(8, 8)], 16);
        let wishes = vec![HeapWish::Allocate { len: 100, align: 64 }, HeapWish::Free { offset: 64 }];
        let call = HeapCall { region_len: 4096, wishes };
        for entry in [entry, ExtentWrite::heap(call, None)] {
            let bytes = crate::wire::control::encode(&entry);
            assert_eq!(crate::wire::control::decode::<ExtentWrite>(&bytes), Ok(entry));
        }
    }
}
