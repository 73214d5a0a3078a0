//! Collective operations of a group, as programs call them.

use super::exchange::{Buffers, GroupWork};
use super::{Group, GroupKind};
use hanare_protocol::collective::Collective;
use hanare_protocol::collective::header::digest;
use hanare_protocol::element::{Element, Operator, folds};
use hanare_protocol::limits::COLLECTIVE_SHORT_LEN;
use hanare_protocol::{Error, Result};
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// A number that vectors are made of.
pub trait Number: FromBytes + IntoBytes + Immutable + Copy {
    /// The kind of its elements.
    const ELEMENT: Element;
}

macro_rules! numbers {
    ($($type:ty = $element:ident),*) => {
        $(impl Number for $type {
            const ELEMENT: Element = Element::$element;
        })*
    };
}
numbers!(u8 = U8, i8 = I8, u16 = U16, i16 = I16, u32 = U32, i32 = I32, u64 = U64, i64 = I64, f32 = F32, f64 = F64);

/// # Collective operations
///
/// Every party calls the same operations in the same order, with vectors of the same length. The first one of a group makes a region for
/// each party, on its host, which goes with the group's last handle. The result is the same, bit for bit, whatever arrives first. Vectors
/// are folded in the order of each host's parties, then in that of the hosts.
///
/// **Cost**: parties of one host exchange through shared memory. Between hosts goes what [`hanare_protocol::collective`] says, each message
/// with up to 128 KiB. No deadline while all parties live. **Errors**, of all operations: [`Error::RankGone`] or [`Error::PartyGone`] at
/// all parties, with the number of one that has gone. [`Error::BadGroup`] if calls do not fit together. The group does no further operation
/// then. Before anything happens: [`Error::BadGroup`] for a root that is no party and for buffers of a wrong length.
/// [`Error::LimitReached`] for more than 256 parties.
impl Group {
    /// Gives all parties the root's values.
    pub fn broadcast<T: IntoBytes + FromBytes + Immutable>(&self, values: &mut [T], root: u32) -> Result<()> {
        self.check_root(root)?;
        let values = values.as_mut_bytes();
        self.move_blocks("broadcast", Collective::Broadcast { root }, values.len(), None, values)
    }

    /// Sets the root's values to the fold of all parties'. Elsewhere they are no result afterwards.
    pub fn reduce<T: Number>(&self, operator: Operator, values: &mut [T], root: u32) -> Result<()> {
        self.reduce_bytes(T::ELEMENT, operator, values.as_mut_bytes(), root)
    }

    /// Sets all parties' values to the fold of all of them.
    pub fn all_reduce<T: Number>(&self, operator: Operator, values: &mut [T]) -> Result<()> {
        self.all_reduce_bytes(T::ELEMENT, operator, values.as_mut_bytes())
    }

    /// [`Group::reduce`] for numbers given as bytes. **Errors**: also [`Error::BadElement`] where they cannot be combined so.
    pub fn reduce_bytes(&self, element: Element, operator: Operator, values: &mut [u8], root: u32) -> Result<()> {
        self.check_root(root)?;
        self.fold_bytes("reduce", Collective::Reduce { root }, element, operator, values)
    }

    /// [`Group::all_reduce`] for numbers given as bytes. **Errors**: also [`Error::BadElement`] where they cannot be combined so.
    pub fn all_reduce_bytes(&self, element: Element, operator: Operator, values: &mut [u8]) -> Result<()> {
        let is_short = values.len() < COLLECTIVE_SHORT_LEN;
        self.fold_bytes("all-reduce", Collective::AllReduce { is_short }, element, operator, values)
    }

    /// Brings a block of each party to the root, where `into` has room for all of them, in the order of the parties. Elsewhere it is empty.
    pub fn gather<T: IntoBytes + FromBytes + Immutable>(&self, own: &[T], into: &mut [T], root: u32) -> Result<()> {
        self.check_root(root)?;
        let (own, into, collective) = (own.as_bytes(), into.as_mut_bytes(), Collective::Gather { root });
        if self.me != root {
            self.check_len("into", into.len(), 0)?;
            return self.move_blocks("gather", collective, own.len(), Some(own), into);
        }
        self.place_own(own, into)?;
        self.move_blocks("gather", collective, own.len(), None, into)
    }

    /// Gives each party its block of the root's `from`, which has all of them, in the order of the parties. Elsewhere it is empty.
    pub fn scatter<T: IntoBytes + FromBytes + Immutable>(&self, from: &[T], own: &mut [T], root: u32) -> Result<()> {
        self.check_root(root)?;
        let (from, own, collective) = (from.as_bytes(), own.as_mut_bytes(), Collective::Scatter { root });
        if self.me != root {
            self.check_len("from", from.len(), 0)?;
            return self.move_blocks("scatter", collective, own.len(), None, own);
        }
        self.check_len("from", from.len(), own.len() * self.parties as usize)?;
        own.copy_from_slice(&from[self.me as usize * own.len()..][..own.len()]);
        self.move_blocks("scatter", collective, own.len(), Some(from), own)
    }

    /// Brings a block of each party to all of them.
    pub fn all_gather<T: IntoBytes + FromBytes + Immutable>(&self, own: &[T], into: &mut [T]) -> Result<()> {
        let (own, into) = (own.as_bytes(), into.as_mut_bytes());
        self.place_own(own, into)?;
        self.move_blocks("all-gather", Collective::AllGather, own.len(), None, into)
    }

    /// Gives each party its block of each party's `from`: block `k` of `from` goes to party `k`, and block `k` of `into` came from it.
    pub fn all_to_all<T: IntoBytes + FromBytes + Immutable>(&self, from: &[T], into: &mut [T]) -> Result<()> {
        let (from, into) = (from.as_bytes(), into.as_mut_bytes());
        let len = from.len() / self.parties as usize;
        self.check_len("from", from.len(), len * self.parties as usize)?;
        self.check_len("into", into.len(), from.len())?;
        let own = self.me as usize * len;
        into[own..own + len].copy_from_slice(&from[own..own + len]);
        self.move_blocks("all-to-all", Collective::AllToAll, len, Some(from), into)
    }

    fn place_own(&self, own: &[u8], into: &mut [u8]) -> Result<()> {
        self.check_len("into", into.len(), own.len() * self.parties as usize)?;
        into[self.me as usize * own.len()..][..own.len()].copy_from_slice(own);
        Ok(())
    }

    fn fold_bytes(
        &self,
        name: &'static str,
        collective: Collective,
        element: Element,
        operator: Operator,
        values: &mut [u8],
    ) -> Result<()> {
        let bad = |reason: &str| {
            let (region, operation) = (format!("(of group '{}')", self.name), format!("{name} by {operator}"));
            Err(Error::BadElement { region, operation, element: element.to_string(), reason: reason.to_owned() })
        };
        if !folds(operator, element) {
            return bad("bitwise operators take whole numbers, and swap is no reduction");
        }
        if !values.len().is_multiple_of(element.len() as usize) {
            return bad("the vector is no whole number of elements");
        }
        let work = self.work(collective, element, operator, values.len());
        self.run(name, &work, Buffers { from: None, into: values })
    }

    /// `len` bytes of the vector, or of each block.
    fn move_blocks(
        &self,
        name: &'static str,
        collective: Collective,
        len: usize,
        from: Option<&[u8]>,
        into: &mut [u8],
    ) -> Result<()> {
        let work = self.work(collective, Element::U8, Operator::Swap, len);
        self.run(name, &work, Buffers { from, into })
    }

    fn work(&self, collective: Collective, element: Element, operator: Operator, len: usize) -> GroupWork {
        let (kind, root) = match collective {
            Collective::Broadcast { root } => (1, root),
            Collective::Reduce { root } => (2, root),
            Collective::AllReduce { .. } => (3, 0),
            Collective::Gather { root } => (4, root),
            Collective::Scatter { root } => (5, root),
            Collective::AllGather => (6, 0),
            Collective::AllToAll => (7, 0),
        };
        let digest = digest(&[kind, root.into(), element as u64, operator as u64, len as u64]);
        GroupWork { collective, element, operator, len, digest }
    }

    fn run(&self, name: &'static str, work: &GroupWork, buffers: Buffers<'_>) -> Result<()> {
        self.pool.release_stores()?;
        if self.parties == 1 {
            return Ok(());
        }
        crate::trace::slice(name, || self.exchange.run(self, work, buffers))
    }

    fn check_root(&self, root: u32) -> Result<()> {
        if root < self.parties { Ok(()) } else { Err(self.bad(format!("there is no party {root} to be the root"))) }
    }

    fn check_len(&self, what: &str, len: usize, wanted: usize) -> Result<()> {
        if len == wanted {
            return Ok(());
        }
        Err(self.bad(format!("`{what}` has {len} bytes, and {wanted} are needed: a block for each party where one is for all")))
    }

    fn bad(&self, reason: String) -> Error {
        let name = if matches!(self.kind, GroupKind::Job) { "job" } else { &self.name };
        Error::BadGroup { name: name.to_owned(), asked: self.parties, parties: self.parties, reason }
    }
}
