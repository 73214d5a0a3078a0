//! Units that queues spill count towards the quota of their writer's user, who is told so at the write; others go on.

use crate::intruder::Intruder;
use crate::raw_link::Raw;
use crate::support;

use hanare::node::{Node, NodeOptions};
use hanare::{CreateOptions, Error, NodeId, Overflow, Placement, QueueForm, Rights, Strided, Unit, WritePort};
use hanare_protocol::queue::NoSpill;
use hanare_protocol::wire::command::{Command, Op};
use hanare_protocol::wire::control::{RegionView, Request, Which};
use hanare_protocol::wire::head::{Head, Kind};
use hanare_protocol::wire::queue::{AppendFront, ArrayAt, QueueRequest, decode_appended};
use hanare_protocol::wire::sync::{SyncAnswer, SyncRequest};
use std::io::Write;
use std::time::{Duration, Instant};
use support::TestPool;

const QUOTA: u64 = 8 << 20;
const UNIT_LEN: usize = 64 << 10;
const FORM: QueueForm =
    QueueForm { unit: Unit::Records { len_max: UNIT_LEN as u32 }, depth: 4, ports: 4, overflow: Overflow::Spill };

fn pool(quota: Option<u64>) -> TestPool {
    let first = Node::start(NodeOptions { quota, ..support::options(64 << 20) }).unwrap();
    let join = Some(first.address().to_owned());
    let second = Node::start(NodeOptions { join, ..support::options(64 << 20) }).unwrap();
    TestPool { nodes: vec![first, second] }
}

fn on_second() -> CreateOptions {
    CreateOptions { placement: Placement::Node(NodeId(1)), ..CreateOptions::default() }
}

/// Has `what` succeed within the time that a healthy pool takes at most.
fn soon(mut what: impl FnMut() -> Result<(), Error>) {
    let until = Instant::now() + Duration::from_secs(20);
    while let Err(error) = what() {
        assert!(Instant::now() < until, "{error}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Another user's writer, message by message: how many units of so many count.
fn append_as(uid: u32, address: &str, view: &RegionView, count: u64) -> u64 {
    let mut raw = Raw::connect_as(address, uid);
    let (slot, grant) = (view.layout.extents().next().unwrap().slot, view.grants[0]);
    let (queue, writer) = (0, u64::from(uid) << 32 | 5);
    let open = SyncRequest::Queue(ArrayAt { slot, grant, offset: 0 }, QueueRequest::OpenLane { queue, writer });
    let Ok(SyncAnswer::Lane { lane, .. }) = raw.ask(&open) else { panic!("no lane") };
    let unit = [&(UNIT_LEN as u64).to_le_bytes()[..], &vec![9; UNIT_LEN]].concat();
    let (mut accepted, until) = (0, Instant::now() + Duration::from_secs(20));
    while accepted < count {
        let front = AppendFront { queue, writer: hanare_protocol::queue::PortId(writer), seq: accepted };
        let operand = [&front.encode()[..], &unit].concat();
        let shape = Strided::contiguous(0, operand.len() as u64).into();
        let command = Command::new(Op::Append { lane }, 0, slot, grant, &shape);
        let body = [&command.encode()[..], &operand].concat();
        let head = Head { count: 1, body_len: body.len() as u64, ..Head::new(Kind::Commands, 5) };
        raw.0.write_all(&[&head.encode()[..], &body].concat()).unwrap();
        let (_, result) = raw.answer();
        let (appended, _) = decode_appended(result[..].try_into().expect("the result of an append"));
        accepted = appended.accepted;
        match appended.refused {
            None => {}
            Some(NoSpill::NotYet) if Instant::now() < until => std::thread::sleep(Duration::from_millis(1)),
            Some(_) => break,
        }
    }
    accepted
}

/// Sends until that is refused. Returns how many units were sent before.
fn send_until_refused(writer: &mut WritePort) -> (u64, Error) {
    let unit = vec![7; UNIT_LEN];
    for sent in 0.. {
        if let Err(error) = writer.send(&unit) {
            return (sent, error);
        }
    }
    unreachable!("it ends when the memory does")
}

#[test]
fn what_a_queue_spills_counts_towards_the_quota_of_its_writer_s_user() {
    let pool = pool(Some(QUOTA));
    let (near, far) = (pool.client(1), pool.client(0));
    let queue = near.create_queue("q", &FORM, &on_second()).unwrap();
    let own = rustix::process::geteuid().as_raw();
    let region_len = FORM.array_len(1).unwrap();
    let mut writer = far.open_queue("q").unwrap().writer().unwrap();
    let (sent, refused) = send_until_refused(&mut writer);
    assert!(matches!(refused, Error::QuotaExceeded { uid, limit: QUOTA, .. } if uid == own), "{refused}");
    let (held, unit_len) = (sent * UNIT_LEN as u64, 2 * UNIT_LEN as u64);
    assert!(held + region_len <= QUOTA + FORM.array_len(1).unwrap(), "{sent} units beyond the quota");
    assert!(held + region_len + unit_len >= QUOTA / 2, "{sent} units are far from the quota");
    // What is spilled counts for regions, too; and nothing that was answered for is lost.
    assert!(matches!(near.create("more", QUOTA / 2, &CreateOptions::default()), Err(Error::QuotaExceeded { .. })));
    assert!(matches!(writer.send(&[7; UNIT_LEN]), Err(Error::QuotaExceeded { .. })));
    let mut view = Intruder::connect_as_we_are(pool.nodes[1].socket());
    let view = view.region(&Request::Open { which: Which::Name("q".to_owned()), rights: Some(Rights::Write) });
    assert_eq!(append_as(own + 1, pool.nodes[1].address(), &view, 40), 40, "another user goes on");
    let mut reader = queue.reader().unwrap();
    for number in 0..sent + 40 {
        let mut unit = Vec::new();
        reader.receive(&mut unit, Some(Duration::from_secs(20))).unwrap_or_else(|error| panic!("{number} of {sent}: {error}"));
        assert_eq!(unit.len(), UNIT_LEN, "{number}");
    }
    soon(|| near.create("more", QUOTA / 2, &CreateOptions::default()).map(drop));
    soon(|| writer.send(&[8; UNIT_LEN]));
}

#[test]
fn without_a_quota_a_queue_spills_as_much_as_its_node_lends() {
    let pool = pool(None);
    let near = pool.client(1);
    let queue = near.create_queue("q", &FORM, &on_second()).unwrap();
    let mut writer = queue.writer().unwrap();
    let (sent, refused) = send_until_refused(&mut writer);
    assert!(matches!(refused, Error::QueueFull { .. }), "{refused}");
    assert!(sent * UNIT_LEN as u64 > 32 << 20, "{sent} units");
    // The coordinator hears of it, and gives nobody that memory.
    soon(|| match near.create("more", 32 << 20, &on_second()) {
        Err(Error::PoolFull { free, .. }) if free < 8 << 20 => Ok(()),
        other => Err(other.expect_err("the node has no room")),
    });
}
