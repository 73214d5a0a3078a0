//! Names of locks and groups belong to the user that used them first: others are refused, at the home's host and over the wire, until they
//! are permitted.

use crate::support::TestPool;
use hanare::{Error, Pool};
use std::time::Duration;

const OWNER: u32 = 65_533;
const OTHER: u32 = 65_534;

/// Attaches as another user. The user is a thread's own, and ends with it; the node asks the kernel for it once.
fn attach_as(uid: u32, socket: &str) -> Pool {
    let socket = socket.to_owned();
    let attach = move || {
        let (user, group) = (rustix::process::Uid::from_raw(uid), rustix::process::Gid::from_raw(uid));
        rustix::thread::set_thread_res_gid(group, group, group).unwrap();
        rustix::thread::set_thread_res_uid(user, user, user).unwrap();
        Pool::attach_to(&socket, None).unwrap()
    };
    std::thread::spawn(attach).join().unwrap()
}

fn may_be_others() -> bool {
    let may = rustix::process::geteuid().is_root();
    if !may {
        hanare_testkit::unable("only root may attach as two other users");
    }
    may
}

#[track_caller]
fn assert_refused<T>(outcome: Result<T, Error>, name: &str) {
    match outcome {
        Err(Error::NoPermission { region, uid: OTHER, owner: OWNER, .. }) => assert_eq!(region, name),
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("another user got in"),
    }
}

#[test]
fn another_user_takes_no_lock_and_joins_no_group_of_ours() {
    if !may_be_others() {
        return;
    }
    let pool = TestPool::start(2, 16 << 20);
    for node in [0, 1] {
        let socket = pool.nodes[node].socket();
        let (owner, other) = (attach_as(OWNER, socket), attach_as(OTHER, socket));
        let (lock, group) = (format!("lock {node}"), format!("group {node}"));
        owner.lock(&lock).unwrap().unlock().unwrap();
        let place = owner.group(&group, 1).unwrap();
        // Nobody holds the lock now, and it is its owner's all the same.
        assert_refused(other.lock(&lock), &lock);
        assert_refused(other.try_lock_shared(&lock), &lock);
        assert_refused(other.lock_within(&lock, Duration::from_secs(5)), &lock);
        assert_refused(other.permit(&lock, 0o777), &lock);
        assert_refused(other.group(&group, 1), &group);
        assert_refused(other.lock(&group), &group);
        place.barrier().unwrap();
        owner.lock(&lock).unwrap().unlock().unwrap();
        other.lock(&format!("theirs {node}")).unwrap().unlock().unwrap();
    }
}

#[test]
fn who_is_permitted_shares_or_takes_as_the_mode_says_from_any_host() {
    if !may_be_others() {
        return;
    }
    let pool = TestPool::start(2, 16 << 20);
    let owner = attach_as(OWNER, pool.nodes[0].socket());
    for node in [0, 1] {
        let other = attach_as(OTHER, pool.nodes[node].socket());
        let name = format!("ours {node}");
        owner.permit(&name, 0o644).unwrap();
        let (one, two) = (owner.lock_shared(&name).unwrap(), other.lock_shared(&name).unwrap());
        assert_refused(other.try_lock(&name), &name);
        one.unlock().unwrap();
        owner.permit(&name, 0o600).unwrap();
        two.unlock().unwrap();
        assert_refused(other.try_lock_shared(&name), &name);
        owner.permit(&name, 0o666).unwrap();
        other.lock(&name).unwrap().unlock().unwrap();
        let (here, there) = (owner.group(&name, 2).unwrap(), other.group(&name, 2).unwrap());
        std::thread::scope(|scope| {
            scope.spawn(|| there.barrier().unwrap());
            here.barrier().unwrap();
        });
        let root = pool.client(node);
        root.lock(&name).unwrap().unlock().unwrap();
        assert!(matches!(owner.permit(&name, 0o7777), Err(Error::BadSetting { .. })));
    }
}
