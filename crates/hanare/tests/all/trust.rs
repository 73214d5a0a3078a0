//! A name is that of who makes a region of it first. Doors that take a region for more than bytes refuse one of a user that was not named.

use crate::support::TestPool;
use hanare::{CreateOptions, Error, JobId, JobRank, Operator, Pool, Rank, Trust};

const USER: u32 = 65_532;
const OTHER: u32 = 65_531;
const LEN: u64 = 1 << 20;

/// Does that as another user. The user is a thread's own, and ends with it; the node asks the kernel for it once.
fn as_user<T: Send>(uid: u32, what: impl FnOnce() -> T + Send) -> Option<T> {
    if !rustix::process::geteuid().is_root() {
        hanare_testkit::unable("only root may attach as two other users");
        return None;
    }
    let become_other = move || {
        let (user, group) = (rustix::process::Uid::from_raw(uid), rustix::process::Gid::from_raw(uid));
        rustix::thread::set_thread_groups(&[]).unwrap();
        rustix::thread::set_thread_res_gid(group, group, group).unwrap();
        rustix::thread::set_thread_res_uid(user, user, user).unwrap();
        what()
    };
    std::thread::scope(|scope| Some(scope.spawn(become_other).join().unwrap()))
}

fn attach_as(uid: u32, pool: &TestPool, node: usize) -> Option<Pool> {
    as_user(uid, || pool.client(node))
}

/// For everybody, on one of the pool's nodes.
fn open_to_all() -> CreateOptions {
    CreateOptions { mode: 0o666, ..CreateOptions::default() }
}

#[track_caller]
fn assert_refused<T>(outcome: Result<T, Error>, name: &str) {
    match outcome {
        Err(Error::NotTrusted { region, owner: OTHER, uid: USER }) => assert_eq!(region, name),
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("another user's region was believed in"),
    }
}

#[test]
fn what_a_neighbour_made_first_is_not_taken_for_one_s_own() {
    let pool = TestPool::start(2, 32 << 20);
    for node in [0, 1] {
        let (Some(user), Some(other)) = (attach_as(USER, &pool, node), attach_as(OTHER, &pool, 0)) else { return };
        let name = format!("table {node}");
        let made = other.create(&name, LEN, &open_to_all()).unwrap();
        assert_eq!((made.owner().uid, made.mode()), (OTHER, 0o666));
        assert_refused(user.create_or_attach(&name, LEN, &CreateOptions::default()), &name);
        assert_refused(user.open_trusted(&name), &name);
        // Plain bytes are whoever's they are, and the handle says so.
        let region = user.open(&name).unwrap();
        assert_eq!((region.owner().uid, user.user().uid), (OTHER, USER));
        assert_refused(user.trust().check_region(&region), &name);
        for trust in [Trust::own(&user).and_user(OTHER), Trust::own(&user).and_anyone()] {
            user.trusting(trust).create_or_attach(&name, LEN, &CreateOptions::default()).unwrap();
        }
        assert_refused(user.trusting(Trust::own(&user).and_user(0)).open_trusted(&name), &name);
        // A name that goes to another region changes nothing of a handle that is open.
        let own = user.create(&format!("own {node}"), LEN, &CreateOptions::default()).unwrap();
        user.trust().check_region(&own).unwrap();
        assert!(user.trust().is_alone_in(&own) && user.trust().vouches_for(&own));
        assert!(!user.trust().is_alone_in(&region) && !user.trust().vouches_for(&region));
        let open = user.create(&format!("open {node}"), LEN, &open_to_all()).unwrap();
        assert!(!user.trust().is_alone_in(&open) && !user.trust().vouches_for(&open));
    }
}

/// Regions of a job have names that others may guess: who makes the first of them is told no party's number.
#[test]
fn a_job_s_regions_are_its_own_user_s() {
    let pool = TestPool::start(1, 64 << 20);
    let Some(other) = attach_as(OTHER, &pool, 0) else { return };
    let job = JobId(0x4a4f42);
    let ranks: Vec<Pool> = (0..2)
        .filter_map(|rank| {
            let attach = || Pool::attach_to(pool.nodes[0].socket(), Some(JobRank { job, rank: Rank(rank), ranks: 2 })).unwrap();
            as_user(USER, attach)
        })
        .collect();
    let name = format!(".job-{:032x}.parts.0", job.0);
    let planted = other.create(&name, LEN, &open_to_all()).unwrap();
    let outcomes: Vec<_> = std::thread::scope(|scope| {
        let sum = |rank: &Pool| rank.job_group().all_reduce(Operator::Add, &mut [1u64]);
        let running: Vec<_> = ranks.iter().map(|rank| scope.spawn(move || sum(rank))).collect();
        running.into_iter().map(|running| running.join().unwrap()).collect()
    });
    let mut told = vec![0; LEN as usize];
    planted.get(0, &mut told).unwrap();
    assert!(told.iter().all(|byte| *byte == 0), "a party told its numbers to another user");
    assert!(outcomes.iter().all(Result::is_err), "{outcomes:?}");
    assert!(outcomes.iter().any(|outcome| matches!(outcome, Err(Error::NotTrusted { owner: OTHER, .. }))), "{outcomes:?}");
}
