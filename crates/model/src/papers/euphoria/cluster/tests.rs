//! Runs of a small cluster: the steps an access pays for, and coherence under any programs.
use super::*;
use crate::papers::euphoria::parameters;

const THERE: Block = Block(1 << NODE_SHIFT);

fn response(cluster: &mut Cluster, node: usize, op: Op) -> Picos {
    cluster.load_program(node, [op]);
    cluster.run();
    let last = cluster.answered().last().expect("a miss was answered");
    last.end - last.start
}

#[test]
fn a_first_remote_read_pays_arbitration_and_set_up() {
    let mut cluster = Cluster::new(&parameters());
    cluster.warm_icc(THERE);
    let took = response(&mut cluster, 0, Op::Read(THERE)).as_ns();
    // Look and arbitration, set-up, read, two control packets of 596 ns.
    assert!((took - (2.0 * 25_506.0 + 44_143.0 + 4_580.0 + 2.0 * 596.0)).abs() < 50.0, "{took}");
    assert_eq!((cluster.counts().set_ups, cluster.counts().icc_misses), (1, 0));
}

#[test]
fn a_dirty_block_is_written_back_first() {
    let mut cluster = Cluster::new(&parameters());
    cluster.bring_up(0, 1);
    cluster.bring_up(1, 2);
    cluster.make_dirty(2, THERE);
    response(&mut cluster, 0, Op::Read(THERE));
    assert_eq!((cluster.counts().write_backs, cluster.counts().dummies, cluster.counts().icc_misses), (1, 1, 1));
    assert_eq!(cluster.nodes[2].cache.state(THERE), Some(Mesi::Shared));
    assert_eq!(cluster.directory[&THERE].sharers, BTreeSet::from([0, 2]));
    response(&mut cluster, 1, Op::Write(THERE));
    assert_eq!(cluster.nodes[0].cache.state(THERE), None);
    assert!(cluster.is_coherent([THERE]));
}

#[test]
fn own_memory_without_copies_never_asks_the_arbiter() {
    let mut cluster = Cluster::new(&parameters());
    let took = response(&mut cluster, 1, Op::Read(THERE));
    assert_eq!((took, cluster.counts().requests), (Picos::from_cycles(28, 33_000_000), 0));
}

#[test]
fn any_programs_end_and_leave_a_coherent_state() {
    for (seed, policy) in [(1_u64, 0.0), (2, 0.0), (3, 0.0), (4, 1.0)] {
        println!("seed {seed}");
        let mut state = seed;
        let mut draw = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        let small = parameters().with("cache.capacity", 1.0).with("cache.ways", 2.0).with("coherence.policy", policy);
        let mut cluster = Cluster::new(&small);
        for node in 0..3 {
            let ops: Vec<Op> = (0..300)
                .map(|_| {
                    let block = Block::of(draw(3) as usize, draw(24));
                    // The deferred policy promises nothing where two nodes write one block without synchronising.
                    let owned = Block::of(draw(3) as usize, 3 * draw(8) + node as u64);
                    match draw(8) {
                        0 | 1 if policy == 0.0 => Op::Write(block),
                        0 | 1 => Op::Write(owned),
                        2 => Op::Compute(draw(5_000)),
                        3 => Op::Sync,
                        _ => Op::Read(block),
                    }
                })
                .chain([Op::Sync])
                .collect();
            cluster.load_program(node, ops);
        }
        cluster.run();
        let blocks = (0..3).flat_map(|home| (0..24).map(move |index| Block::of(home, index)));
        assert!(policy == 1.0 || cluster.is_coherent(blocks), "seed {seed}");
        assert!(cluster.counts().requests > 100);
    }
}
