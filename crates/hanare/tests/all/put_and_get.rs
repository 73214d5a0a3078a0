//! Bytes that are put anywhere come back from everywhere.

use crate::support;

use hanare::{CreateOptions, Error, NodeId, Placement, Rights, Strided};
use support::{TestPool, pattern};

const MIB: u64 = 1 << 20;

fn place(placement: Placement) -> CreateOptions {
    CreateOptions { placement, ..CreateOptions::default() }
}

// FEATURE: RF-F1 RF-F2 RF-F4 RF-F5 RF-F6 EU-F3 D3-F1 D2-F9 D2-F12
#[test]
fn what_one_client_puts_every_other_gets_whatever_the_placement() {
    let pool = TestPool::start(2, 128 * MIB);
    let (near, far) = (pool.client(0), pool.client(1));
    for (number, placement) in [Placement::Local, Placement::Node(NodeId(1)), Placement::Interleave(4096)].into_iter().enumerate()
    {
        for len in [1, 7, 4096, 65_535, 65_536, 3 * MIB + 5] {
            let name = format!("r{number}-{len}");
            let region = near.create(&name, len, &place(placement)).unwrap();
            let bytes = pattern(len as usize, len);
            region.put(0, &bytes).unwrap();
            for client in [&near, &far] {
                let region = client.open(&name).unwrap();
                let mut back = vec![0; len as usize];
                region.get(0, &mut back).unwrap();
                assert!(back == bytes, "{placement} {len}");
                let middle = len / 3;
                region.get(middle, &mut back[..1]).unwrap();
                assert_eq!(back[0], bytes[middle as usize]);
            }
        }
    }
}

#[test]
fn a_fresh_region_is_zero_even_where_another_was() {
    let pool = TestPool::start(2, 64 * MIB);
    let client = pool.client(0);
    for node in [0, 1] {
        for len in [100, 100_000, 40 * MIB] {
            let region = client.create("a", len, &place(Placement::Node(NodeId(node)))).unwrap();
            region.put(0, &pattern(len as usize, 3)).unwrap();
            drop(region);
            client.remove("a").unwrap();
            let region = client.create("b", len, &place(Placement::Node(NodeId(node)))).unwrap();
            let mut back = vec![1; len as usize];
            region.get(0, &mut back).unwrap();
            assert!(back.iter().all(|byte| *byte == 0), "node {node}, {len} bytes");
            drop(region);
            client.remove("b").unwrap();
        }
    }
}

// FEATURE: D2-F11
#[test]
fn strided_commands_move_just_their_blocks() {
    let pool = TestPool::start(2, 64 * MIB);
    let client = pool.client(0);
    for placement in [Placement::Local, Placement::Node(NodeId(1)), Placement::Interleave(4096)] {
        for (block, count, stride) in [(8, 1000, 64), (1, 5000, 3), (4096, 100, 5000), (100_000, 7, 100_000), (3000, 300, 3001)] {
            let shape = Strided { offset: 13, block, count, stride };
            let len = shape.offset + stride * (count - 1) + block + 9;
            let region = client.create("s", len, &place(placement)).unwrap();
            let mut all = pattern(len as usize, 1);
            region.put(0, &all).unwrap();
            let fresh = pattern((block * count) as usize, 2);
            region.put_strided(shape, &fresh).unwrap();
            let mut back = vec![0; fresh.len()];
            region.get_strided(shape, &mut back).unwrap();
            assert!(back == fresh, "{placement} {shape:?}");
            for (k, block) in fresh.chunks(block as usize).enumerate() {
                let at = (shape.offset + k as u64 * stride) as usize;
                all[at..at + block.len()].copy_from_slice(block);
            }
            let mut whole = vec![0; len as usize];
            region.get(0, &mut whole).unwrap();
            assert!(whole == all, "{placement} {shape:?}: bytes between the blocks changed");
            client.remove("s").unwrap();
        }
    }
}

#[test]
fn copies_move_bytes_within_and_between_nodes() {
    let pool = TestPool::start(2, 64 * MIB);
    let client = pool.client(0);
    let places = [Placement::Node(NodeId(0)), Placement::Node(NodeId(1)), Placement::Interleave(4096)];
    for from_place in places {
        for to_place in places {
            let from = client.create("from", 300_000, &place(from_place)).unwrap();
            let to = client.create("to", 300_000, &place(to_place)).unwrap();
            let bytes = pattern(300_000, 5);
            from.put(0, &bytes).unwrap();
            client.copy(&from, Strided::contiguous(1, 250_000), &to, Strided::contiguous(2, 250_000)).unwrap();
            let mut back = vec![0; 250_000];
            to.get(2, &mut back).unwrap();
            assert!(back == bytes[1..250_001], "{from_place} to {to_place}");
            let column = Strided { offset: 8, block: 8, count: 1000, stride: 256 };
            client.copy(&from, column, &to, Strided::contiguous(0, 8000)).unwrap();
            let mut packed = vec![0; 8000];
            to.get(0, &mut packed).unwrap();
            let expected: Vec<u8> = (0..1000).flat_map(|k| bytes[8 + k * 256..16 + k * 256].to_vec()).collect();
            assert!(packed == expected, "{from_place} to {to_place}, strided");
            let adjacent = Strided { offset: 0, block: 8, count: 1000, stride: 8 };
            client.copy(&to, adjacent, &from, column).unwrap();
            let mut again = vec![0; 8000];
            from.get_strided(column, &mut again).unwrap();
            assert!(again == expected, "{to_place} to {from_place}, adjacent blocks to spread ones");
            client.remove("from").unwrap();
            client.remove("to").unwrap();
        }
    }
}

#[test]
fn batches_and_non_blocking_commands_end_with_their_bytes() {
    let pool = TestPool::start(2, 64 * MIB);
    let client = pool.client(0);
    let near = client.create("near", MIB, &CreateOptions::default()).unwrap();
    let far = client.create("far", MIB, &place(Placement::Node(NodeId(1)))).unwrap();
    let bytes = pattern(MIB as usize, 9);
    let puts: Vec<_> =
        bytes.chunks(1000).enumerate().map(|(k, part)| far.start_put(k as u64 * 1000, part.to_vec()).unwrap()).collect();
    near.put(0, &bytes).unwrap();
    client.flush().unwrap();
    for put in puts {
        put.wait().unwrap();
    }
    let sent = client.traffic().messages_sent;
    let mut parts = vec![vec![0; 100]; 200];
    client
        .batch(|batch| {
            for (k, part) in parts.iter_mut().enumerate() {
                let region = if k % 2 == 0 { &near } else { &far };
                batch.get(region, k as u64 * 777, part)?;
            }
            Ok(())
        })
        .unwrap();
    for (k, part) in parts.iter().enumerate() {
        assert!(part[..] == bytes[k * 777..k * 777 + 100], "{k}");
    }
    assert_eq!(client.traffic().messages_sent - sent, 1, "one message for the one other node");
    let get = far.start_get(5, vec![0; 5000]).unwrap();
    assert_eq!(get.wait().unwrap(), bytes[5..5005]);
}

#[test]
fn one_remote_command_is_one_message_each_way() {
    let pool = TestPool::start(2, 64 * MIB);
    let client = pool.client(0);
    let far = client.create("far", 8 * MIB, &place(Placement::Node(NodeId(1)))).unwrap();
    far.put(0, &[1]).unwrap();
    let before = client.traffic();
    let mut buffer = vec![0; 4 * MIB as usize];
    far.get(0, &mut buffer).unwrap();
    far.get_strided(Strided { offset: 0, block: 8, count: 4096, stride: 128 }, &mut buffer[..32768]).unwrap();
    let after = client.traffic();
    assert_eq!((after.messages_sent - before.messages_sent, after.messages_received - before.messages_received), (2, 2));
}

#[test]
fn bad_input_is_refused_by_name_offset_and_limit() {
    let pool = TestPool::start(2, 64 * MIB);
    let client = pool.client(0);
    for placement in [Placement::Local, Placement::Node(NodeId(1))] {
        let region = client.create("r", 100, &place(placement)).unwrap();
        let mut buffer = [0; 50];
        for offset in [51, 100, u64::MAX, u64::MAX - 10] {
            let error = region.get(offset, &mut buffer).unwrap_err();
            assert!(matches!(&error, Error::OutOfRange { region, limit: 100, .. } if region == "r"), "{error}");
        }
        assert!(matches!(region.put(60, &buffer), Err(Error::OutOfRange { .. })));
        let overlap = Strided { offset: 0, block: 8, count: 4, stride: 7 };
        assert!(matches!(region.get_strided(overlap, &mut buffer[..32]), Err(Error::BadShape { .. })));
        let short = Strided { offset: 0, block: 8, count: 4, stride: 8 };
        assert!(matches!(region.get_strided(short, &mut buffer[..31]), Err(Error::BadShape { .. })));
        region.get(100, &mut []).unwrap();
        let reader = client.open_for("r", Rights::Read).unwrap();
        assert!(matches!(reader.put(0, &[1]), Err(Error::BadUse { .. })));
        client.remove("r").unwrap();
    }
    assert!(matches!(client.open("none"), Err(Error::UnknownRegion { .. })));
    assert!(matches!(client.create("z", 0, &CreateOptions::default()), Err(Error::BadLength { .. })));
    assert!(matches!(client.create("big", 1 << 40, &CreateOptions::default()), Err(Error::PoolFull { .. })));
    assert!(matches!(client.create("a/b", 1, &CreateOptions::default()), Err(Error::BadName { .. })));
    assert!(matches!(client.create("n", 1, &place(Placement::Node(NodeId(7)))), Err(Error::BadPlacement { .. })));
}

#[test]
fn resized_regions_keep_their_bytes_and_grow_zeros() {
    let pool = TestPool::start(2, 64 * MIB);
    let client = pool.client(0);
    for placement in [Placement::Local, Placement::Node(NodeId(1)), Placement::Interleave(4096)] {
        let region = client.create("r", 10_000, &place(placement)).unwrap();
        let bytes = pattern(10_000, 4);
        region.put(0, &bytes).unwrap();
        let longer = client.resize("r", 50_000).unwrap();
        assert_eq!((region.len(), longer.len()), (10_000, 50_000));
        let mut back = vec![1; 50_000];
        longer.get(0, &mut back).unwrap();
        assert!(back[..10_000] == bytes && back[10_000..].iter().all(|byte| *byte == 0));
        longer.put(9_990, &[7; 20]).unwrap();
        region.get(9_990, &mut back[..10]).unwrap();
        assert_eq!(back[..10], [7; 10]);
        assert!(matches!(client.resize("r", 20_000), Err(Error::BadLength { .. })));
        client.remove("r").unwrap();
    }
}

#[test]
fn a_local_region_is_plain_memory_for_all_who_map_it() {
    let pool = TestPool::start(1, 128 * MIB);
    let (a, b) = (pool.client(0), pool.client(0));
    for len in [1, 5000, 70_000, 40 * MIB] {
        let region = a.create("m", len, &CreateOptions::default()).unwrap();
        region.put(len - 1, &[5]).unwrap();
        let mapping = region.map_local().unwrap();
        let other = b.open("m").unwrap().map_local().unwrap();
        // SAFETY: both mappings are as long as the region, and nobody else writes.
        unsafe {
            assert_eq!(other.ptr().add(len as usize - 1).read_volatile(), 5);
            mapping.ptr().write_volatile(9);
            assert_eq!(other.ptr().read_volatile(), 9);
        }
        let mut back = [0];
        b.open("m").unwrap().get(0, &mut back).unwrap();
        assert_eq!(back, [9]);
        a.remove("m").unwrap();
        // SAFETY: a removed region stays mapped until its mappings go.
        unsafe { assert_eq!(mapping.ptr().read_volatile(), 9) };
    }
}

// FEATURE: RF-F2
#[test]
fn a_put_from_another_node_lands_in_mapped_memory_that_nobody_registered() {
    let pool = TestPool::start(2, 192 * MIB);
    let (owner, stranger) = (pool.client(1), pool.client(0));
    // Long enough for several slabs: an offset is translated to a file and a page of it, at the node and in the mapping alike.
    let len = 80 * MIB;
    let region = owner.create("window", len, &CreateOptions::default()).unwrap();
    let mapping = region.map_local().unwrap();
    let far = stranger.open("window").unwrap();
    for at in [0, 32 * MIB - 4, 64 * MIB - 4, len - 8] {
        let bytes = at.to_le_bytes();
        far.put(at, &bytes).unwrap();
        for (k, byte) in bytes.into_iter().enumerate() {
            // SAFETY: the mapping is as long as the region, and the put that wrote there has ended.
            assert_eq!(unsafe { mapping.ptr().add(at as usize + k).read_volatile() }, byte, "at {at}");
        }
    }
}
