//! What queues of nodes have spilled counts towards quotas, and takes room.

use super::*;

const QUOTA: u64 = 10_000;

fn pool() -> Pool {
    Pool::with(2, Settings { quota: Some(QUOTA), ..Settings::new("n0") })
}

impl Pool {
    fn reserve(&mut self, number: usize, used: u64, wanted: u64) -> (u64, u64) {
        match self.call(number, OWNER, Request::Reserve { used, wanted }) {
            Ok(Answer::Reserved { granted, elsewhere }) => (granted, elsewhere),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn what_is_spilled_counts_beside_regions() {
    let mut pool = pool();
    pool.create(0, "a", 4_000, Placement::Local).unwrap();
    assert_eq!(pool.reserve(1, 0, 5_000), (5_000, 4_000));
    assert_eq!(pool.reserve(0, 0, 5_000), (1_000, 9_000), "what is left, all nodes together");
    let refused = pool.create(0, "b", 1, Placement::Local);
    assert_eq!(refused, Err(Error::QuotaExceeded { uid: 10, asked: 1, used: QUOTA, limit: QUOTA }));
    assert!(view(pool.call(0, OTHER, create("c", QUOTA, Placement::Local, false))).is_ok(), "others go on");
    assert_eq!(pool.reserve(1, 2_000, 2_000), (2_000, 5_000), "less than before");
    assert!(pool.create(0, "b", 3_000, Placement::Local).is_ok());
    assert_eq!(pool.reserve(1, 2_500, 3_000), (2_500, 8_000), "what is spilled already counts in any case");
    assert_eq!(pool.reserve(0, 0, 0), (0, 9_500));
}

#[test]
fn a_region_that_is_given_away_counts_beside_what_its_owner_has_spilled() {
    let mut pool = pool();
    let root = User { uid: 0, gid: 0 };
    view(pool.call(0, root, create("a", 6_000, Placement::Local, false))).unwrap();
    assert_eq!(pool.reserve(0, 5_000, 5_000).0, 5_000);
    let changes = crate::wire::control::Changes { owner: Some(OWNER), ..Default::default() };
    let given = pool.call(0, root, Request::Alter { name: "a".to_owned(), changes });
    assert!(matches!(given, Err(Error::QuotaExceeded { used: 5_000, .. })), "{given:?}");
}

#[test]
fn what_a_node_has_spilled_goes_with_its_epoch_and_is_told_again() {
    let mut pool = pool();
    assert_eq!(pool.reserve(1, 0, QUOTA), (QUOTA, 0));
    pool.cut(1);
    assert!(pool.create(0, "a", 4_000, Placement::Local).is_ok());
    pool.connect(1);
    assert_eq!(pool.reserve(1, 7_000, QUOTA), (7_000, 4_000), "the node was not there, and nobody's units are thrown away");
    assert!(matches!(pool.create(0, "b", 1, Placement::Local), Err(Error::QuotaExceeded { .. })));
}

#[test]
fn a_request_that_comes_late_changes_nothing() {
    let mut pool = pool();
    pool.reserve(1, 0, 6_000);
    pool.reserve(1, 0, 1_000);
    let key = AskKey { incarnation: Incarnation(2), request: 0 };
    let what = Request::Reserve { used: 0, wanted: 6_000 };
    let task = Task { node: NodeId(1), user: OWNER.into(), client: ClientId(0), what };
    assert_eq!(pool.coordinator.reserve(key, &task, 0, 6_000), Ok(Answer::Reserved { granted: 1_000, elsewhere: 0 }));
    assert_eq!(pool.coordinator.reserved(OWNER.uid), 1_000);
}

#[test]
fn nobody_is_given_memory_that_queues_have_spilled_into() {
    let mut pool = Pool::new(2);
    pool.nodes[1].member.set_memory(Memory { lent: 1 << 20, spilled: (1 << 20) - 5_000, ..Memory::default() });
    pool.pass(1_000, &[]);
    assert!(matches!(pool.create(1, "a", 5_001, Placement::Local), Err(Error::PoolFull { free: 5_000, .. })));
    assert!(pool.create(1, "a", 5_000, Placement::Local).is_ok());
}
