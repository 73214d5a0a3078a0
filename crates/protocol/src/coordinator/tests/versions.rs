//! What is new waits for nodes that may not know it, also for those that are away.

use super::*;
use crate::tenant::KeyHash;
use crate::versions::{OLDEST, Versions};
use crate::wire::control::TenantWish;

const ROOT: User = User { uid: 0, gid: 0 };

/// Three nodes; the last one is of the release before and holds a region.
fn two_releases() -> Pool {
    let mut pool = Pool::new(2);
    pool.nodes.push(node("n2", 3));
    set_versions(&mut pool.nodes[2], Versions { oldest: OLDEST, newest: OLDEST });
    pool.connect(2);
    pool.create(2, "old", 4096, Placement::Local).unwrap();
    pool
}

fn set_versions(node: &mut Node, versions: Versions) {
    node.member.set_memory(Memory { lent: 1 << 20, populated: 1 << 20, page: 4096, versions, ..Memory::default() });
}

/// Asks for a tenant, which the last release does not know.
fn ask_for_new(pool: &mut Pool) -> u64 {
    let wish = TenantWish::Create { name: "one".to_owned(), hash: KeyHash([1; 32]), quota: None };
    pool.ask(0, ROOT, Request::Tenants(wish))
}

/// The name of the node that is too old.
fn too_old(answer: Option<Result<Answer>>) -> String {
    match answer {
        Some(Err(Error::TooOld { peer, speaks: OLDEST, needs: 28 })) => peer,
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_old_node_that_is_away_for_a_moment_is_waited_for_and_back_with_its_bytes() {
    let mut pool = two_releases();
    pool.cut(2);
    let asked = ask_for_new(&mut pool);
    pool.pass(1_000, &[2]);
    assert_eq!(pool.answer(0, asked), None, "it may be back within its lease");
    pool.connect(2);
    assert_eq!(too_old(pool.answer(0, asked)), "node 2 (n2)");
    assert!(pool.open(2, "old").is_ok(), "it kept its bytes");
}

#[test]
fn an_old_node_is_waited_for_by_a_coordinator_that_does_not_know_it_yet() {
    let mut pool = two_releases();
    pool.restart_coordinator();
    pool.connect(0);
    let asked = ask_for_new(&mut pool);
    pool.connect(1);
    assert_eq!(pool.answer(0, asked), None, "one is on its way");
    pool.connect(2);
    assert_eq!(too_old(pool.answer(0, asked)), "node 2 (n2)");
    // Nodes of today are waited for, too, and then nothing stands in the way.
    set_versions(&mut pool.nodes[2], Versions::BUILD);
    pool.restart_coordinator();
    pool.connect(0);
    let asked = ask_for_new(&mut pool);
    pool.connect(2);
    assert_eq!(pool.answer(0, asked), None);
    pool.connect(1);
    assert!(matches!(pool.answer(0, asked), Some(Ok(_))));
}

#[test]
fn an_old_node_that_stays_away_stands_in_the_way_while_it_has_bytes() {
    for (is_cut, restarts) in [(false, false), (true, false), (false, true)] {
        let mut pool = two_releases();
        if is_cut {
            pool.cut(2);
        }
        pool.pass(3 * limits::LEASE_MS, &[2]);
        if restarts {
            pool.restart_coordinator();
            pool.connect(0);
            pool.connect(1);
            pool.pass(3 * limits::LEASE_MS, &[2]);
        }
        let asked = ask_for_new(&mut pool);
        let told = too_old(pool.answer(0, asked));
        assert_eq!(told, "node 2 (n2), away with bytes that `hanare node rm 2` gives up,", "{is_cut} {restarts}");
        assert_eq!(pool.call(0, ROOT, Request::Forget { node: NodeId(2) }), Ok(Answer::Ok));
        let asked = ask_for_new(&mut pool);
        assert!(matches!(pool.answer(0, asked), Some(Ok(_))), "{is_cut} {restarts}");
    }
}
