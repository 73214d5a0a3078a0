//! What commands cost in messages and bytes: counted, not timed.

use crate::support;

use hanare::{
    Consistency, CreateOptions, Dim, Element, Indexed, Modify, NodeId, Operator, Placement, Pool, Range, Region, Strided,
    Subarray,
};
use std::time::Instant;
use support::{TestPool, pattern};

const MIB: u64 = 1 << 20;

fn region(pool: &Pool, name: &str, len: u64, placement: Placement) -> Region {
    pool.create(name, len, &CreateOptions { placement, ..CreateOptions::default() }).unwrap()
}

/// Messages and bytes that `what` sent and received.
fn cost(pool: &Pool, what: impl FnOnce()) -> (u64, u64) {
    let (before, begun) = (pool.traffic(), Instant::now());
    what();
    let after = pool.traffic();
    let (sent, received) = (after.messages_sent - before.messages_sent, after.messages_received - before.messages_received);
    // Each of three nodes that works for long gives a sign of life once a second.
    let signs = 3 * begun.elapsed().as_secs();
    assert!((sent..=sent + signs).contains(&received), "as many answers: {received} of {sent}");
    let bytes = after.bytes_sent + after.bytes_received - before.bytes_sent - before.bytes_received;
    (sent, bytes)
}

// FEATURE: D3-F11 D3-F12
#[test]
fn copies_between_nodes_pass_no_byte_through_the_client() {
    let pool = TestPool::start(3, 64 * MIB);
    let client = pool.client(0);
    let (from, to) =
        (region(&client, "a", 8 * MIB, Placement::Node(NodeId(1))), region(&client, "b", 8 * MIB, Placement::Node(NodeId(2))));
    let bytes = pattern(8 * MIB as usize, 1);
    from.put(0, &bytes).unwrap();
    let whole = Strided::contiguous(0, 8 * MIB);
    let (messages, moved) = cost(&client, || client.copy(&from, whole, &to, whole).unwrap());
    assert_eq!(messages, 1);
    assert!(moved < 1024, "{moved} bytes");
    assert!(to.compare(whole, &bytes).unwrap().is_none());

    let spread = Strided { offset: 3, block: 8, count: 100_000, stride: 64 };
    let tile = Subarray::new(1 << 20, 80, &[Dim { count: 100, stride: 9000 }, Dim { count: 100, stride: -80 }]).unwrap();
    let (messages, moved) = cost(&client, || client.copy(&from, spread, &to, tile).unwrap());
    assert_eq!(messages, 1);
    assert!(moved < 1024, "{moved} bytes");
    let mut wanted = vec![0; 800_000];
    let mut back = vec![0; 800_000];
    from.get_strided(spread, &mut wanted).unwrap();
    to.get_shape(tile, &mut back).unwrap();
    assert!(back == wanted);
}

// FEATURE: D3-F13 D3-F15
#[test]
fn a_batch_of_any_mix_is_one_message_to_each_node() {
    let pool = TestPool::start(3, 64 * MIB);
    let client = pool.client(0);
    // From the third node all of it is on others but a third.
    let region = region(&client, "mixed", 6 * MIB, Placement::Interleave(65536));
    let bytes = pattern(MIB as usize, 1);
    region.fill(Strided::contiguous(0, 6 * MIB), &[0]).unwrap();
    let indices: Vec<u32> = (0..1000).map(|k| k * 37 % 1000).collect();
    let operands: Vec<u8> = (0..1000u64).flat_map(u64::to_le_bytes).collect();
    let rows = Subarray::new(2 * MIB, 8, &[Dim { count: 50, stride: 4096 }, Dim { count: 30, stride: -64 }]).unwrap();
    let rows_at_end = Subarray::new(2 * MIB + 1920, 8, rows.dims()).unwrap();
    let (mut tile, mut olds, mut summary, mut found) = (vec![0; 12_000], vec![0; 8000], None, Some(0));
    let modify = Modify { operator: Operator::Xor, element: Element::U64 };
    let (messages, _) = cost(&client, || {
        client
            .batch(|batch| {
                batch.put(&region, 0, &bytes)?;
                batch.get_shape(&region, rows_at_end, &mut tile)?;
                batch.update(&region, Indexed::elements(3 * MIB, 8, &indices[..]), modify, &operands)?;
                batch.fetch(&region, Strided::contiguous(4 * MIB, 8000), modify, &operands, &mut olds)?;
                batch.fill(&region, Strided { offset: 5 * MIB, block: 4, count: 100, stride: 1000 }, b"ab")?;
                batch.compare(&region, Strided::contiguous(0, 0), &[], &mut found)?;
                batch.reduce(&region, Strided::contiguous(4 * MIB, 0), Element::I64, Range::all(Element::I64), &mut summary)
            })
            .unwrap();
    });
    assert_eq!(messages, 2, "this host's part needs none");
    assert_eq!((found, summary.map(|summary| summary.count)), (None, Some(0)));
    assert!(olds.iter().all(|byte| *byte == 0));
    let mut back = vec![0; 8000];
    region.get_shape(Indexed::elements(3 * MIB, 8, &indices[..]), &mut back).unwrap();
    assert!(back == operands);
}

#[test]
fn a_scan_moves_less_than_a_kibibyte_a_node() {
    let pool = TestPool::start(3, 64 * MIB);
    let client = pool.client(0);
    let region = region(&client, "table", 24 * MIB, Placement::Interleave(4096));
    let values: Vec<u8> = (0..3 * MIB).map(|k| k as i64 - 1000).flat_map(i64::to_le_bytes).collect();
    region.put(0, &values).unwrap();
    let mut summary = None;
    let (messages, bytes) = cost(&client, || {
        let range = Range::Whole(-10, 1_000_000);
        summary = Some(region.reduce(Strided::contiguous(0, 24 * MIB), Element::I64, range).unwrap());
    });
    let summary = summary.unwrap();
    assert_eq!(summary.count, 1_000_011);
    assert_eq!(summary.sum(), hanare::Value::Whole((-10..=1_000_000i128).sum()));
    assert_eq!(messages, 2);
    assert!(bytes < 2 * 1024, "{bytes}");
}

#[test]
fn an_interleaved_range_is_one_command_to_each_node() {
    let pool = TestPool::start(2, 64 * MIB);
    let client = pool.client(0);
    let region = region(&client, "striped", 16 * MIB, Placement::Interleave(4096));
    let mut back = vec![0; 16 * MIB as usize];
    let (messages, bytes) = cost(&client, || region.get(0, &mut back).unwrap());
    assert_eq!(messages, 1);
    assert!(bytes < 8 * MIB + 1024, "the commands of 2048 chunks travel as one: {bytes}");
}

#[test]
fn long_lists_go_in_pieces_and_come_back_whole() {
    let pool = TestPool::start(2, 64 * MIB);
    let client = pool.client(0);
    let region = region(&client, "far", 32 * MIB, Placement::Node(NodeId(1)));
    let words: Vec<u8> = (0..4 * MIB).flat_map(u64::to_le_bytes).collect();
    region.put(0, &words).unwrap();
    let indices: Vec<u32> = (0..3 * MIB as u32).map(|k| k.wrapping_mul(2_654_435_761) % (4 * MIB as u32)).collect();
    let mut back = vec![0; indices.len() * 8];
    region.get_shape(Indexed::elements(0, 8, &indices[..]), &mut back).unwrap();
    for (k, word) in back.chunks(8).enumerate() {
        assert_eq!(u64::from_le_bytes(word.try_into().unwrap()), u64::from(indices[k]));
    }
    let modify = Modify { operator: Operator::Add, element: Element::U64 };
    let mut olds = vec![0; 16 * MIB as usize];
    region.fetch(Strided::contiguous(0, 16 * MIB), modify, &1u64.to_le_bytes(), &mut olds).unwrap();
    assert!(olds == words[..16 * MIB as usize]);
    region.update(Indexed::elements(0, 8, &indices[..]), modify, &1u64.to_le_bytes()).unwrap();
    let mut wanted: Vec<u64> = (0..4 * MIB).map(|k| k + u64::from(k < 2 * MIB)).collect();
    indices.iter().for_each(|index| wanted[*index as usize] += 1);
    let bytes: Vec<u8> = wanted.into_iter().flat_map(u64::to_le_bytes).collect();
    assert_eq!(region.compare(Strided::contiguous(0, 32 * MIB), &bytes).unwrap(), None);
}

// FEATURE: D2-F7
#[test]
fn a_flush_of_single_bytes_in_many_pages_goes_in_few_messages() {
    const PAGE: u64 = 4096;
    let pool = TestPool::start(3, 64 * MIB);
    let client = pool.client(0);
    let region = region(&client, "spread", 4500 * PAGE, Placement::Interleave(PAGE));
    let mapping = match region.map(Consistency::Explicit) {
        Ok(mapping) => mapping,
        Err(error) => return hanare_testkit::unable(error),
    };
    mapping.touch(0, mapping.len()).unwrap();
    // At no regular distance, so that each page is a put of its own.
    let places = || (0..4500u64).map(|page| page * PAGE + page * page % PAGE);
    places().for_each(|at| mapping.write(at, &[at as u8 | 1]).unwrap());
    // 3000 of these pages lie on the two other nodes, 512 of them are sent at once.
    let (messages, moved) = cost(&client, || mapping.flush(0, mapping.len()).unwrap());
    assert_eq!(messages, 2 * 3000u64.div_ceil(512));
    assert!(moved < 3000 * 70, "{moved} bytes");
    let mut bytes = vec![0; mapping.len() as usize];
    region.get(0, &mut bytes).unwrap();
    assert!(places().all(|at| bytes[at as usize] == at as u8 | 1));
    assert_eq!(bytes.iter().filter(|byte| **byte != 0).count(), 4500, "and nothing else");
    assert_eq!(cost(&client, || mapping.flush(0, mapping.len()).unwrap()).0, 0);
}
