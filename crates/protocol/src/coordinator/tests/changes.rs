//! What is changed of regions after they were made, what takes the place of lost ones, and how nodes leave the list.

use super::*;
use crate::keeper_list::{KeeperList, KnownKeepers, ListedKeeper};
use crate::limits::FORGET_MS;
use crate::wire::control::{Changes, KeeperChange};

const ROOT: User = User { uid: 0, gid: 0 };

fn renew(name: &str, len: u64) -> Request {
    let (placement, attributes) = (Placement::Local, Attributes::default());
    Request::Create {
        name: name.to_owned(),
        len,
        placement,
        copies: 1,
        mode: 0o600,
        attributes,
        existing: Existing::AttachOrRenew,
    }
}

fn alter(name: &str, changes: Changes) -> Request {
    Request::Alter { name: name.to_owned(), changes }
}

#[test]
fn attributes_are_kept_with_the_region_and_changed_by_its_owner() {
    let mut pool = Pool::new(1);
    let attributes = Attributes::from_iter([("descr", "<f8"), ("unit", "K")]);
    let Request::Create { name, len, placement, mode, existing, .. } = create("a", 4096, Placement::Local, false) else {
        panic!()
    };
    let made = view(pool.call(
        0,
        OWNER,
        Request::Create { name, len, placement, copies: 1, mode, attributes: attributes.clone(), existing },
    ));
    assert_eq!(made.unwrap().attributes, attributes);
    let changes = |value: Option<&str>| Changes {
        attributes: [("unit".to_owned(), value.map(|value| value.into()))].into(),
        ..Changes::default()
    };
    assert!(matches!(pool.call(0, OTHER, alter("a", changes(None))), Err(Error::NoPermission { .. })));
    let long = "x".repeat(crate::limits::ATTRIBUTES_LEN_MAX);
    assert!(matches!(pool.call(0, OWNER, alter("a", changes(Some(&long)))), Err(Error::LimitReached { .. })));
    assert_eq!(pool.call(0, OWNER, alter("a", changes(None))), Ok(Answer::Ok));
    let restored = Coordinator::restore(Settings::new("n0"), pool.journal.clone(), 0);
    assert_eq!(restored.regions().next().unwrap().attributes, Attributes::from_iter([("descr", "<f8")]));
    assert_eq!(pool.stat("a").unwrap().attributes, Attributes::from_iter([("descr", "<f8")]));
}

#[test]
fn a_region_gets_another_name_mode_and_owner_and_keeps_its_number() {
    let mut pool = Pool::new(1);
    let made = pool.create(0, "a", 4096, Placement::Local).unwrap();
    pool.create(0, "b", 4096, Placement::Local).unwrap();
    let rename = |name: &str| Changes { name: Some(name.to_owned()), ..Changes::default() };
    assert!(matches!(pool.call(0, OWNER, alter("a", rename("b"))), Err(Error::NameTaken { .. })));
    assert!(matches!(pool.call(0, OWNER, alter("a", rename("x/y"))), Err(Error::BadName { .. })));
    assert_eq!(pool.call(0, OWNER, alter("a", rename("a"))), Ok(Answer::Ok));
    assert_eq!(pool.call(0, OWNER, alter("a", rename("c"))), Ok(Answer::Ok));
    assert!(matches!(pool.open(0, "a"), Err(Error::UnknownRegion { .. })));
    let by_number = Request::Open { which: Which::Gid(made.gid), rights: None };
    let found = view(pool.call(0, OWNER, by_number.clone())).unwrap();
    assert_eq!((found.name.as_str(), found.grants), ("c", made.grants));
    assert!(matches!(pool.call(0, OTHER, by_number.clone()), Err(Error::NoPermission { .. })));
    let open_to_all = Changes { mode: Some(0o644), ..Changes::default() };
    assert_eq!(pool.call(0, OWNER, alter("c", open_to_all)), Ok(Answer::Ok));
    assert_eq!(view(pool.call(0, OTHER, by_number)).unwrap().rights, Rights::Read);
    assert!(pool.call(0, OWNER, alter("c", Changes { mode: Some(0o1000), ..Changes::default() })).is_err());
    let give = Changes { owner: Some(OTHER), ..Changes::default() };
    assert!(matches!(pool.call(0, OWNER, alter("c", give.clone())), Err(Error::NoPermission { .. })));
    assert_eq!(pool.call(0, ROOT, alter("c", give)), Ok(Answer::Ok));
    assert_eq!((pool.coordinator.used(OWNER.uid), pool.coordinator.used(OTHER.uid)), (4096, 4096));
}

#[test]
fn a_region_whose_bytes_are_lost_is_made_anew_for_its_owner_alone() {
    let mut pool = Pool::new(2);
    let lost = pool.create(1, "a", 4096, Placement::Local).unwrap();
    assert_eq!(view(pool.call(0, OWNER, renew("a", 4096))).unwrap().made, Made::Found, "what is there is opened");
    pool.nodes[1].member.leave(false);
    pool.run();
    assert!(matches!(pool.call(0, OWNER, create("a", 4096, Placement::Local, true)), Err(Error::RegionLost { .. })));
    assert!(matches!(pool.call(0, OTHER, renew("a", 4096)), Err(Error::NoPermission { .. })));
    let anew = view(pool.call(0, OWNER, renew("a", 8192))).unwrap();
    assert_eq!((anew.made, anew.layout.len()), (Made::Renewed, 8192));
    assert!(anew.gid > lost.gid);
    assert_eq!(pool.coordinator.used(OWNER.uid), 8192, "the lost bytes count no more");
    let restored = Coordinator::restore(Settings::new("n0"), pool.journal.clone(), 0);
    assert_eq!(restored.regions().map(|region| region.gid).collect::<Vec<_>>(), [anew.gid]);
}

#[test]
fn what_a_node_keeps_is_not_made_anew_while_it_is_away() {
    let mut pool = Pool::new(2);
    pool.create(1, "a", 4096, Placement::Local).unwrap();
    pool.nodes[1].member.leave(true);
    pool.run();
    pool.pass(60_000, &[1]);
    assert!(matches!(pool.call(0, OWNER, renew("a", 4096)), Err(Error::NodeLost { node: NodeId(1), .. })));
    assert_eq!(pool.stat("a").unwrap().lost, None);
}

#[test]
fn a_node_that_was_started_again_with_its_extents_has_its_regions_in_a_new_epoch() {
    let mut pool = Pool::new(2);
    let made = pool.create(1, "a", 4096, Placement::Local).unwrap();
    let held: Vec<ReportedExtent> = pool.nodes[1].member.held().copied().collect();
    let start = |pool: &mut Pool, life: u128, restores: u128| {
        pool.nodes[1].member.leave(true);
        pool.run();
        let fresh = member::Settings::new(Incarnation(life), "n1", "127.0.0.1:1");
        let settings = member::Settings { restores: Some(Incarnation(restores)), ..fresh };
        pool.nodes[1].member = Member::with_extents(settings, held.clone());
        pool.nodes[1].member.set_memory(Memory { lent: 1 << 20, ..Memory::default() });
        pool.connect(1);
    };
    // The first life of node 1 in these pools.
    let before = 2;
    start(&mut pool, 77, before);
    let again = pool.open(0, "a").unwrap();
    assert_eq!(again.gid, made.gid);
    assert_ne!(again.grants, made.grants, "grants of the life before are void");
    let restored = Coordinator::restore(Settings::new("n0"), pool.journal.clone(), 0);
    assert!(restored.regions().all(|region| region.lost.is_empty()));
    // What an earlier life than the last wrote down is old: the region is lost, and never as it was then.
    start(&mut pool, 78, before);
    assert!(matches!(pool.open(0, "a"), Err(Error::RegionLost { .. })));
}

#[test]
fn nodes_that_are_gone_leave_the_list_when_somebody_says_so_or_by_themselves() {
    let mut pool = Pool::new(3);
    pool.create(1, "a", 4096, Placement::Local).unwrap();
    let forget = |node: u32| Request::Forget { node: NodeId(node) };
    assert!(matches!(pool.call(0, OWNER, forget(1)), Err(Error::BadSetting { .. })), "a member stays");
    assert!(matches!(pool.call(0, OWNER, forget(9)), Err(Error::BadSetting { .. })));
    pool.nodes[1].member.leave(true);
    pool.nodes[2].member.leave(false);
    pool.run();
    assert!(matches!(pool.call(0, OTHER, forget(1)), Err(Error::NoPermission { .. })), "bytes of others may come back");
    assert_eq!(pool.call(0, OWNER, forget(1)), Ok(Answer::Ok));
    assert_eq!(pool.stat("a").unwrap().lost, Some(NodeId(1)));
    let listed = |pool: &Pool| pool.coordinator.nodes().map(|node| node.node.0).collect::<Vec<_>>();
    assert_eq!(listed(&pool), [0, 2]);
    pool.pass(FORGET_MS - 1000, &[1, 2]);
    assert_eq!(listed(&pool), [0, 2]);
    pool.pass(2000, &[1, 2]);
    assert_eq!(listed(&pool), [0]);
}

#[test]
fn a_user_that_makes_many_regions_keeps_nobody_waiting_for_more_than_a_few() {
    let mut pool = Pool::new(2);
    let there = Placement::Node(NodeId(1));
    let made = |pool: &Pool| pool.coordinator.growths.len();
    // The node takes its time.
    pool.nodes[1].makes = None;
    pool.ask(0, OWNER, create("mine", 4096, there, false));
    let many: Vec<u64> =
        (0..50).map(|number| pool.ask(1, OTHER, create(&format!("theirs{number}"), 4096, there, false))).collect();
    assert_eq!(made(&pool), 1 + limits::USER_WORK_COUNT);
    let third = User { uid: OTHER.uid + 1, ..OTHER };
    pool.ask(0, third, create("another's", 4096, there, false));
    assert_eq!(made(&pool), 2 + limits::USER_WORK_COUNT, "it comes before those that wait");
    assert!(pool.call(1, OTHER, Request::Status).is_ok());
    // The node makes those that come from here on, and never the ones before: they are in nobody's way for long.
    pool.nodes[1].makes = Some(Ok(()));
    pool.pass(limits::REPEAT_MS * 2, &[]);
    let answers: Vec<_> = many.into_iter().skip(limits::USER_WORK_COUNT).map(|request| pool.answer(1, request)).collect();
    assert!(answers.iter().all(|answer| matches!(answer, Some(Ok(Answer::Region(_))))), "{answers:?}");
}

#[test]
fn after_a_change_of_coordinators_a_create_waits_for_the_nodes_that_it_needs() {
    let mut pool = Pool::new(3);
    pool.restart_coordinator();
    pool.connect(0);
    let two_copies = Request::Create {
        name: "two".to_owned(),
        len: 4096,
        placement: Placement::Local,
        copies: 2,
        mode: 0o600,
        attributes: Attributes::default(),
        existing: Existing::Refuse,
    };
    let there = pool.ask(0, OWNER, create("there", 4096, Placement::Node(NodeId(1)), false));
    let large = pool.ask(0, OWNER, create("large", 5 << 18, Placement::Interleave(4096), false));
    let twice = pool.ask(0, OWNER, two_copies);
    let gone = pool.ask(0, OWNER, create("gone", 4096, Placement::Node(NodeId(2)), false));
    for asked in [there, large, twice, gone] {
        assert_eq!(pool.answer(0, asked), None, "it waits for the nodes to come back");
    }
    pool.connect(1);
    for asked in [there, twice] {
        assert!(pool.answer(0, asked).unwrap().is_ok());
    }
    assert_eq!((pool.answer(0, gone), pool.answer(0, large)), (None, None), "a region over all nodes waits for all");
    pool.pass(crate::limits::HOME_LEASE_MS, &[2]);
    assert!(pool.answer(0, large).unwrap().is_ok(), "for a moment");
    assert_eq!(pool.answer(0, gone), None);
    pool.pass(3 * crate::limits::LEASE_MS, &[2]);
    assert!(matches!(pool.answer(0, gone), Some(Err(Error::NodeLost { node: NodeId(2), .. }))), "it did not come back");
}

impl Pool {
    /// A node says that to the coordinator.
    fn tell(&mut self, number: usize, message: FromNode) {
        let peer = self.nodes[number].peer.unwrap();
        self.coordinator.handle(self.now_ms, peer, message);
        self.run();
    }
}

/// Changes the list of keepers of a pool whose keepers are known so. Returns the next list, or why there is none.
fn change(
    pool: &mut Pool,
    known: &KnownKeepers,
    address: &str,
    change: KeeperChange,
) -> std::result::Result<Option<KeeperList>, String> {
    pool.coordinator.set_keepers(known.clone());
    let records = pool.journal.len();
    match pool.call(0, ROOT, Request::Keepers { address: address.to_owned(), change }) {
        Ok(_) => Ok(pool.journal[records..].iter().find_map(|record| match record {
            Record::Keepers { list, by: Some(_) } => Some(list.clone()),
            _ => None,
        })),
        Err(Error::BadSetting { reason, .. }) => Err(reason),
        other => panic!("{other:?}"),
    }
}

/// Keepers at `k1`, `k2` and so on, of which those are reached.
fn known_keepers(count: u64, reached: &[u64]) -> KnownKeepers {
    let seat = |number: u64| (number, ListedKeeper { address: format!("k{number}"), disk: Some(number.into()) });
    let list = KeeperList { edition: 4, seats: (1..=count).map(seat).collect() };
    KnownKeepers { list, reached: reached.iter().copied().collect() }
}

#[test]
fn keepers_are_added_removed_and_replaced_where_a_majority_of_the_next_list_is_reached() {
    use KeeperChange::{Add, Remove, Replace};
    let none = KnownKeepers::default();
    assert!(change(&mut Pool::new(1), &none, "k1", Replace).unwrap_err().contains("has no keepers"));
    let all = known_keepers(3, &[1, 2, 3]);
    let two = known_keepers(3, &[1, 2]);
    for (known, address, what, said) in [
        (&all, "k2", Replace, "it answers"),
        (&all, "k9", Remove, "the keepers are k1, k2, k3"),
        (&all, "k9", Add, "no node of this pool"),
        (&two, "k2", Remove, "1 of 2 keepers would be reached"),
        (&known_keepers(2, &[1, 2]), "k2", Remove, "2 at least"),
        (&known_keepers(7, &[1, 2, 3, 4]), "k9", Add, "7 keepers"),
    ] {
        let reason = change(&mut Pool::new(1), known, address, what).unwrap_err();
        assert!(reason.contains(said), "{address}: {reason}");
    }
    assert_eq!(change(&mut Pool::new(1), &all, "k2", Add), Ok(None), "it is one");
    let mut pool = Pool::new(1);
    let next = change(&mut pool, &all, "k1", Remove).unwrap().unwrap();
    assert_eq!((next.edition, next.addresses()), (5, vec!["k2".to_owned(), "k3".to_owned()]));
    assert!(change(&mut pool, &all, "k2", Remove).unwrap_err().contains("under way"));
    let next = change(&mut Pool::new(1), &two, "k3", Replace).unwrap().unwrap();
    assert_eq!((next.seats.len(), next.numbers().collect::<Vec<_>>()), (3, vec![1, 2]), "its seat waits for a disk");
}

#[test]
fn a_member_with_a_disk_becomes_a_keeper_where_it_is_added_or_a_seat_waits_for_it() {
    let mut pool = Pool::new(2);
    let address = pool.coordinator.nodes().nth(1).unwrap().address.clone();
    let known = known_keepers(3, &[1, 2]);
    assert!(change(&mut pool, &known, &address, KeeperChange::Add).is_err(), "it has said nothing of a disk");
    pool.tell(1, FromNode::Keeper { disk: Some(9) });
    let next = change(&mut pool, &known, &address, KeeperChange::Add).unwrap().unwrap();
    assert_eq!(next.seats[&4], ListedKeeper { address: address.clone(), disk: Some(9) });

    let mut pool = Pool::new(2);
    let mut waits = known.clone();
    waits.list.seats.insert(3, ListedKeeper { address, disk: None });
    pool.coordinator.set_keepers(waits);
    pool.tell(1, FromNode::Keeper { disk: Some(9) });
    pool.pass(50, &[]);
    let filled = pool.journal.iter().find_map(|record| match record {
        Record::Keepers { list, by: None } => Some(list.seats[&3].disk),
        _ => None,
    });
    assert_eq!(filled, Some(Some(9)));
}
