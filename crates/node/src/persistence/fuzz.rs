//! A fuzz target: the file of a node's extents, with the sums that whoever wrote it can make.

use super::blocks::fill;
use super::{MAGIC, read_head, sum};
use crate::extents::Extents;
use hanare_memory::file::Huge;
use hanare_memory::{Lender, LenderOptions};
use hanare_protocol::id::Gid;
use std::io::Cursor;
use std::sync::Arc;

const LEN: u64 = 64 << 10;

thread_local! {
    static LENDER: Arc<Lender> = {
        let options = LenderOptions { bytes: 8 << 20, slab_len: Some(1 << 20), huge: Huge::Never, ahead: 0, ..LenderOptions::default() };
        Arc::new(Lender::new(&options).expect("memory"))
    };
}

/// Bytes behind two of their length, and what follows.
fn part(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let ([low, high], rest) = bytes.split_first_chunk()?;
    Some(rest.split_at(usize::from(u16::from_le_bytes([*low, *high])).min(rest.len())))
}

/// A head; then blocks, each behind its extent and its offset.
pub(crate) fn kept(bytes: &[u8]) {
    let Some((head, mut rest)) = part(bytes) else { return };
    let file = [&MAGIC[..], &(head.len() as u64).to_le_bytes(), &sum(&[MAGIC, head]), head].concat();
    let _ = read_head(&mut Cursor::new(file));
    let (mut stream, mut count) = (Vec::new(), 0_u64);
    let block = |place: &[u8], bytes: &[u8]| [place, &sum(&[place, bytes]), bytes].concat();
    while let Some((place, more)) = rest.split_first_chunk::<16>()
        && let Some((bytes, more)) = part(more)
    {
        let place = [&place[..], &(bytes.len() as u64).to_le_bytes()].concat();
        stream.extend(block(&place, bytes));
        (rest, count) = (more, count + 1);
    }
    let end = [u64::MAX, count, 0].map(u64::to_le_bytes).concat();
    stream.extend(block(&end, &[]));
    let extents = Extents::new(LENDER.with(Arc::clone));
    let made = extents.make(Gid(1), &[LEN], false).expect("memory")[0];
    let all: Vec<_> = extents.describe().into_iter().map(|(_, held)| held).collect();
    let _ = fill(&mut &stream[..], &all);
    drop(all);
    extents.free(&[made.slot]);
    assert_eq!(extents.spills.len(), 0, "what was spilled goes with its extent");
}

/// Inputs that [`kept`] begins with: an extent, of which a queue has spilled.
#[cfg(test)]
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    use super::{Described, Head};
    use hanare_protocol::id::{Incarnation, Slot};
    use hanare_protocol::queue::{Overflow, QueueForm, Unit};
    let form = QueueForm { unit: Unit::Records { len_max: 40 }, depth: 3, ports: 2, overflow: Overflow::Spill };
    let pack = |bytes: &[u8]| [&(bytes.len() as u16).to_le_bytes(), bytes].concat();
    let place = |offset: u64| [0, offset].map(u64::to_le_bytes).concat();
    let described = Described { slot: Slot(3), gid: Gid(1), len: LEN, has_heap: true };
    let head = Head { life: Incarnation(1), name: "n".to_owned(), written: 7, extents: vec![described] };
    let unit = |queue: u64, lane: u64, bytes: &[u8]| {
        [&[0, queue, 1000 << 32 | lane, bytes.len() as u64].map(u64::to_le_bytes).concat()[..], bytes].concat()
    };
    let units = [unit(0, 0, b"first"), unit(0, 0, b""), unit(2, 1, &[7; 40])].concat();
    let blocks = [place(0), pack(&form.encode(3)), place(4096), pack(&[1; 100]), place(u64::MAX), pack(&units)].concat();
    vec![[pack(&hanare_protocol::wire::control::encode(&head)), blocks].concat()]
}
