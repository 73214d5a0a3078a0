//! A client that knows the protocol and means no good: the node lives, and serves others.

use crate::processes::Dice;
use crate::raw_link::{BOUND, Raw};
use crate::support;

use hanare::{CreateOptions, Dim, Element, Error, Modify, Operator, Overflow, QueueForm, Rights, Shape, Strided, Subarray, Unit};
use hanare_protocol::heap::{HeapCall, HeapRefusal, HeapWish};
use hanare_protocol::id::{Grant, Slot};
use hanare_protocol::limits::{
    HEAP_WISH_COUNT_MAX, LINK_CLAIM_COUNT_MAX, LINK_WORD_COUNT_MAX, QUEUE_READY_COUNT_MAX, WAIT_WORD_COUNT_MAX,
};
use hanare_protocol::queue::PortId;
use hanare_protocol::versions::Versions;
use hanare_protocol::wire::command::{COMMAND_LEN, Command, Op, Update, dims_list};
use hanare_protocol::wire::control::{self, Answer, Existing, RegionView, Request, Which};
use hanare_protocol::wire::head::{HEAD_LEN, Head, Kind};
use hanare_protocol::wire::queue::{AppendFront, ArrayAt, QueueRequest};
use hanare_protocol::wire::sync::{LeaseWish, Mode, Party, SyncAddress, SyncAnswer, SyncRequest, Wait, WaitedWord, Word};
use std::collections::VecDeque;
use std::io::{Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use support::TestPool;

/// Sends commands, each with its list and its operand; they must be refused.
fn refused_commands(raw: &mut Raw, commands: &[(Command, Vec<u8>)], operands: &[u8]) -> Error {
    raw.0.write_all(&message(commands, operands)).unwrap();
    let (head, body) = raw.answer();
    assert_eq!(head.kind, Kind::Refused);
    control::decode(&body).unwrap()
}

fn message(commands: &[(Command, Vec<u8>)], operands: &[u8]) -> Vec<u8> {
    let fronts = commands.iter().flat_map(|(command, _)| command.encode());
    let lists = commands.iter().flat_map(|(_, list)| list.iter().copied());
    let body: Vec<u8> = fronts.chain(lists).chain(operands.iter().copied()).collect();
    let head = Head { count: commands.len() as u32, body_len: body.len() as u64, ..Head::new(Kind::Commands, 5) };
    [&head.encode()[..], &body].concat()
}

/// Asks a client's node, as the library does.
fn ask_node(socket: &mut UnixStream, request: &Request) -> Answer {
    let value = control::encode(request);
    socket.write_all(&[&(value.len() as u32).to_le_bytes()[..], &[0; 4], &value].concat()).unwrap();
    let mut prefix = [0; 8];
    socket.read_exact(&mut prefix).unwrap();
    let mut value = vec![0; u32::from_le_bytes(prefix[..4].try_into().unwrap()) as usize];
    socket.read_exact(&mut value).unwrap();
    control::decode::<Result<Answer, Error>>(&value).unwrap().unwrap()
}

/// A region opened for reading: its grant is another.
fn reopened(socket: &mut UnixStream, name: &str) -> RegionView {
    match ask_node(socket, &Request::Open { which: Which::Name(name.to_owned()), rights: Some(Rights::Read) }) {
        Answer::Region(view) => view,
        other => panic!("{other:?}"),
    }
}

/// Makes a region as the library does, and tells its grants, which the library keeps to itself.
fn region(socket: &str, len: u64) -> (RegionView, UnixStream) {
    let address = SocketAddr::from_abstract_name(socket.strip_prefix('@').unwrap()).unwrap();
    let mut socket = UnixStream::connect_addr(&address).unwrap();
    socket.set_read_timeout(Some(BOUND)).unwrap();
    ask_node(&mut socket, &Request::Attach { versions: Versions::BUILD, job: None });
    let CreateOptions { placement, .. } = CreateOptions::default();
    let create = Request::Create {
        copies: 1,
        name: format!("target-{len}"),
        len,
        placement,
        mode: 0o600,
        attributes: Default::default(),
        existing: Existing::Refuse,
    };
    match ask_node(&mut socket, &create) {
        Answer::Region(view) => (view, socket),
        other => panic!("{other:?}"),
    }
}

const LEN: u64 = 1 << 20;

fn commands_on(view: &RegionView) -> impl Fn(Op, Shape<'_>) -> (Command, Vec<u8>) {
    let (slot, grant): (Slot, Grant) = (view.layout.extents().next().unwrap().slot, view.grants[0]);
    move |op, shape| {
        let list = if let Shape::Subarray(shape) = &shape { dims_list(shape) } else { Vec::new() };
        (Command::new(op, 0, slot, grant, &shape), list)
    }
}

fn blocks(block: u64, dims: &[Dim]) -> Shape<'static> {
    Subarray::new(0, block, dims).unwrap().into()
}

#[test]
fn what_64_bytes_cannot_ask_for() {
    let pool = TestPool::start(1, 64 << 20);
    let (view, _session) = region(pool.nodes[0].socket(), LEN);
    let command = commands_on(&view);
    let mut raw = Raw::connect(pool.nodes[0].address());
    let again = |count| Dim { count, stride: 0 };
    let add = Update { operator: Operator::Add, element: Element::U64, is_same: true };

    // A block that is not aligned behind more of them than anybody can look at.
    let odd = blocks(8, &[Dim { count: 2, stride: 12 }, again(1 << 58)]);
    let error = refused_commands(&mut raw, &[command(Op::Update(add), odd)], &1u64.to_le_bytes());
    assert!(matches!(error, Error::BadElement { .. }), "{error}");

    // More results, together, than a message holds, and than 64 bits count.
    let half = || blocks(1, &[again(1 << 63)]);
    let error = refused_commands(&mut raw, &[command(Op::Get, half()), command(Op::Get, half())], &[]);
    assert!(matches!(error, Error::LimitReached { .. }), "{error}");

    // An address that the node would have to hold.
    let long = Op::CopyFrom { address_len: 1 << 16 };
    let word = || Shape::contiguous(0, 8);
    let error = refused_commands(&mut raw, &[command(long, word()), command(Op::CopyTo, word())], &[b'a'; 1 << 16]);
    assert!(matches!(error, Error::BadShape { .. }), "{error}");

    // Patterns, likewise.
    let pattern = Op::Fill { pattern_len: 256 << 10 };
    let patterns: Vec<_> = (0..17).map(|_| command(pattern, Shape::contiguous(0, LEN))).collect();
    raw.0.set_write_timeout(None).unwrap();
    let error = refused_commands(&mut raw, &patterns, &vec![0; 17 * (256 << 10)]);
    assert!(matches!(error, Error::LimitReached { .. }), "{error}");

    // Digests that the node would have to hold, of one command and together.
    let digests = |pages| command(Op::Digest, blocks(4096, &[again(pages)]));
    let error = refused_commands(&mut raw, &[digests(1 << 19)], &[7; 16]);
    assert!(matches!(error, Error::BadShape { .. }), "{error}");
    let error = refused_commands(&mut raw, &[digests(3 << 16), digests(3 << 16)], &[7; 32]);
    assert!(matches!(error, Error::LimitReached { .. }), "{error}");

    // Operands that 64 bits cannot count are no message.
    for op in [Op::Put, Op::Compare, Op::CompareAndSwap(Element::U64)] {
        let mut raw = Raw::connect(pool.nodes[0].address());
        let whole = || blocks(8, &[again(1 << 60)]);
        raw.0.write_all(&message(&[command(op, whole()), command(op, whole())], &[0; 64])).unwrap();
        let _ = raw.0.read(&mut [0; HEAD_LEN]);
    }
    // Dimensions of nothing.
    raw.0.write_all(&message(&[command(Op::Get, blocks(0, &[Dim { count: 1 << 62, stride: 1 }; 8]))], &[])).unwrap();
    assert_eq!(raw.answer().0.kind, Kind::Done);
    raw.assert_alive();
}

#[test]
fn a_batch_of_many_patterns_goes_in_several_messages() {
    let pool = TestPool::start(2, 64 << 20);
    let client = pool.client(0);
    let placement = hanare::Placement::Node(hanare::NodeId(1));
    let region = client.create("filled", 32 << 18, &CreateOptions { placement, ..CreateOptions::default() }).unwrap();
    let patterns: Vec<Vec<u8>> = (0..32).map(|k| vec![k; 1 << 18]).collect();
    client
        .batch(|batch| {
            let mut each = patterns.iter().zip(0u64..);
            each.try_for_each(|(pattern, k)| batch.fill(&region, Strided::contiguous(k << 18, 1 << 18), pattern))
        })
        .unwrap();
    let mut back = vec![0; 32 << 18];
    region.get(0, &mut back).unwrap();
    assert_eq!(back, patterns.concat());
}

#[test]
fn a_batch_with_a_command_that_could_not_be_added_is_not_sent() {
    let pool = TestPool::start(2, 64 << 20);
    let client = pool.client(0);
    let placement = hanare::Placement::Node(hanare::NodeId(1));
    let region = client.create("whole", 4096, &CreateOptions { placement, ..CreateOptions::default() }).unwrap();
    let modify = Modify { operator: Operator::Add, element: Element::U64 };
    let error = client.batch(|batch| {
        batch.put(&region, 0, &[1; 8])?;
        let _ = batch.update(&region, Strided::contiguous(4, 8), modify, &[1; 8]);
        Ok(())
    });
    assert!(matches!(error, Err(Error::BadElement { .. })), "{error:?}");
    let mut back = [9; 8];
    region.get(0, &mut back).unwrap();
    assert_eq!(back, [0; 8]);
}

/// Numbers that are likely to go wrong.
struct Nasty(Dice);

impl Nasty {
    fn below(&mut self, bound: u64) -> u64 {
        self.0.below(bound)
    }

    fn number(&mut self) -> u64 {
        match self.below(8) {
            0 => self.0.next(),
            1 => 1 << self.below(64),
            2 => (1 << self.below(64)) - 1,
            3 => LEN - self.below(64),
            4 => (self.below(64) as i64 - 32) as u64,
            5 => 0,
            _ => self.below(64),
        }
    }

    /// A command that is often nearly right, its list, and as many bytes of its operand as it says, within reason.
    fn command(&mut self, good: &[u8; COMMAND_LEN], address: &str) -> ([u8; COMMAND_LEN], Vec<u8>, Vec<u8>) {
        let mut bytes = *good;
        let (op, form) = (1 + self.below(10) as u8, [0, 0, 1, 2, 16, 17, 18, 23][self.below(8) as usize]);
        (bytes[0], bytes[1]) = (op, form);
        if op >= 7 {
            bytes[2] = self.below(11) as u8;
        }
        if op == 8 || op == 9 {
            (bytes[3], bytes[12]) = (self.below(8) as u8, self.below(2) as u8);
        }
        match op {
            3 if self.below(2) == 0 => bytes[12..16].copy_from_slice(&(address.len() as u32).to_le_bytes()),
            5 => bytes[12..16].copy_from_slice(&(1 + self.below(600) as u32).to_le_bytes()),
            _ => {}
        }
        for word in bytes[32..].chunks_exact_mut(8) {
            word.copy_from_slice(&self.number().to_le_bytes());
        }
        if self.below(16) == 0 {
            bytes[self.below(COMMAND_LEN as u64) as usize] ^= 1 << self.below(8);
        }
        let command = Command::decode(&bytes).ok();
        let list_len = command.and_then(|command| command.list_len().ok()).unwrap_or_default().min(1 << 16) as usize;
        let list: Vec<u8> = (0..list_len.div_ceil(8)).flat_map(|_| self.number().to_le_bytes()).collect();
        let words: Vec<u64> = list.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect();
        let checked = command.and_then(|command| command.shape(&words).ok()).and_then(|shape| shape.check("", LEN).ok());
        let operand_len =
            command.zip(checked).and_then(|(command, shape)| command.op.operand_len(shape.len())).unwrap_or_default();
        let mut operand = vec![self.0.next() as u8; operand_len.min(1 << 16) as usize];
        if op == 3 && operand.len() == address.len() {
            operand.copy_from_slice(address.as_bytes());
        }
        (bytes, list, operand)
    }

    fn message(&mut self, good: &[u8; COMMAND_LEN], address: &str) -> Vec<u8> {
        let (mut fronts, mut lists, mut operands) = (Vec::new(), Vec::new(), Vec::new());
        let count = 1 + self.below(3);
        for _ in 0..count {
            let (command, list, operand) = self.command(good, address);
            fronts.extend(command);
            lists.extend(list);
            operands.extend(operand);
        }
        let body = [fronts, lists, operands].concat();
        let odd = if self.below(16) == 0 { self.number() } else { 0 };
        let body_len = (body.len() as u64).wrapping_add(odd);
        let head = Head { count: count as u32, body_len, ..Head::new(Kind::Commands, self.below(100)) };
        [&head.encode()[..], &body].concat()
    }
}

#[test]
fn the_node_outlives_nonsense_and_serves_others() {
    let seed = u64::from_le_bytes(std::array::from_fn(|k| std::process::id().to_le_bytes()[k % 4])) | 1;
    println!("seed {seed}");
    let pool = TestPool::start(1, 64 << 20);
    let mut nasty = Nasty(Dice::new(seed));
    let address = pool.nodes[0].address().to_owned();
    let targets = [region(pool.nodes[0].socket(), LEN), region(pool.nodes[0].socket(), 4096)];
    let client = pool.client(0);
    let region = client.create("untouched", 4096, &CreateOptions::default()).unwrap();
    region.put(0, &[7; 4096]).unwrap();
    let mut probe = Raw::connect(&address);
    // Some stay, with what they asked for under way.
    let mut open: VecDeque<Raw> = VecDeque::new();
    for _ in 0..600 {
        let view = &targets[nasty.below(2) as usize].0;
        let good = commands_on(view)(Op::Get, Shape::contiguous(0, 8)).0.encode();
        let mut raw = Raw::connect(&address);
        for _ in 0..1 + nasty.below(6) {
            let message = nasty.message(&good, &address);
            let cut = if nasty.below(8) == 0 { nasty.below(message.len() as u64) as usize } else { message.len() };
            // The node may have closed it, or be waited for by it.
            if raw.0.write_all(&message[..cut]).is_err() || cut < message.len() {
                break;
            }
        }
        open.push_back(raw);
        if open.len() > 12 {
            open.pop_front();
        }
        probe.assert_alive();
    }
    let mut back = [0; 4096];
    region.get(0, &mut back).unwrap();
    assert_eq!(back, [7; 4096]);
}

#[test]
fn what_clients_share_is_not_filled_or_spoiled_by_one_of_them() {
    let pool = TestPool::start(1, 64 << 20);
    let (view, _session) = region(pool.nodes[0].socket(), LEN);
    let mut raw = Raw::connect(pool.nodes[0].address());
    let lock = |number, name: &str| SyncRequest::Lock {
        address: SyncAddress::Name(name.to_owned()),
        mode: Mode::Exclusive,
        number,
        thread: number,
        bound_ms: None,
        known: None,
        lease: LeaseWish::default(),
    };
    let taken = SyncAnswer::Granted { abandoned: false, data: None, leased: false };
    for number in 0..LINK_CLAIM_COUNT_MAX as u64 {
        assert_eq!(raw.ask(&lock(number, &format!("lock{number}"))), Ok(taken.clone()));
    }
    assert!(matches!(raw.ask(&lock(u64::MAX, "more")), Err(Error::LimitReached { .. })));
    assert!(matches!(raw.ask(&SyncRequest::Unlock { number: u64::MAX }), Err(Error::LockMisused { .. })));
    assert!(matches!(raw.ask(&SyncRequest::Arrive(Party::Place(0), None)), Err(Error::BadGroup { .. })));
    assert!(matches!(raw.ask(&SyncRequest::Leave { number: 0 }), Err(Error::BadGroup { .. })));
    assert!(matches!(raw.ask(&lock(u64::MAX, "a/b")), Err(Error::BadName { .. })));

    let (slot, grant) = (view.layout.extents().next().unwrap().slot, view.grants[0]);
    let wait = |offset, until| SyncRequest::Wait { words: vec![WaitedWord { slot, grant, offset, until }], bound_ms: None };
    for count in [0, WAIT_WORD_COUNT_MAX + 1] {
        let word = WaitedWord { slot, grant, offset: 0, until: Wait::Equal(Word::U64(0)) };
        let words = SyncRequest::Wait { words: vec![word; count], bound_ms: None };
        assert!(matches!(raw.ask(&words), Err(Error::LimitReached { .. })), "{count} words");
    }
    let never = Wait::Equal(Word::U64(1));
    for offset in [1, LEN - 4, LEN, u64::MAX - 7, u64::MAX] {
        assert!(matches!(raw.ask(&wait(offset, never)), Err(Error::BadUse { .. })), "{offset}");
    }
    for _ in 0..LINK_WORD_COUNT_MAX {
        raw.send(&wait(0, never));
    }
    assert!(matches!(raw.ask(&wait(0, never)), Err(Error::LimitReached { .. })));
    let call = |region_len, len, align| HeapCall { region_len, wishes: vec![HeapWish::Allocate { len, align }] };
    let forged = SyncRequest::Heap { slot, grant: Grant([7; 16]), call: call(LEN, 8, 8), once: None };
    assert!(matches!(raw.ask(&forged), Err(Error::GrantRefused { .. })));
    // A length that is not the region's spoils the liar's own heap alone.
    let lie = SyncRequest::Heap { slot, grant, call: call(u64::MAX, u64::MAX, 1 << 63), once: None };
    let Ok(SyncAnswer::Blocks(answers)) = raw.ask(&lie) else { panic!("the heap answers") };
    assert!(matches!(answers[..], [Err(HeapRefusal::Full { .. })]));
    for count in [0, HEAP_WISH_COUNT_MAX + 1] {
        let call = HeapCall { region_len: LEN, wishes: vec![HeapWish::Allocate { len: 1, align: 1 }; count] };
        let many = SyncRequest::Heap { slot, grant, call, once: None };
        assert!(matches!(raw.ask(&many), Err(Error::BadUse { .. })), "{count} wishes");
    }

    let client = pool.client(0);
    assert!(client.try_lock("lock0").unwrap().is_none());
    assert!(!client.lock("another").unwrap().was_abandoned());
    drop(raw);
    assert!(client.lock("lock0").unwrap().was_abandoned(), "all that it took goes on");

    // Garbage in the body is refused; a body beyond its limit ends the link.
    let mut raw = Raw::connect(pool.nodes[0].address());
    let head = Head { body_len: 3, ..Head::new(Kind::Sync, 5) };
    raw.0.write_all(&[&head.encode()[..], &[0xff; 3]].concat()).unwrap();
    assert_eq!(raw.answer().0.kind, Kind::Refused);
    raw.assert_alive();
    let head = Head { body_len: 1 << 20, ..Head::new(Kind::Sync, 5) };
    raw.0.write_all(&head.encode()).unwrap();
    assert_eq!(raw.0.read(&mut [0; 1]).unwrap_or(0), 0);
}

/// The first line of an array is memory of those who use it: they write another number of queues there, and leave queues beyond it.
#[test]
fn a_queue_that_is_no_more_is_left_without_a_store_beyond_the_array() {
    let pool = TestPool::start(1, 64 << 20);
    let (view, _session) = region(pool.nodes[0].socket(), LEN);
    let form = QueueForm { unit: Unit::Blocks { len: 16 }, depth: 4, ports: 2, overflow: Overflow::Refuse };
    let count = (1..).take_while(|count| form.array_len(*count).unwrap() <= LEN).last().unwrap();
    let opened = pool.client(0).open(&view.name).unwrap();
    let at = ArrayAt { slot: view.layout.extents().next().unwrap().slot, grant: view.grants[0], offset: 0 };
    let last = count - 1;
    for leaves in [true, false] {
        opened.make_queues(0, count, &form).unwrap();
        let mut raw = Raw::connect(pool.nodes[0].address());
        let mut ask = |request| raw.ask(&SyncRequest::Queue(at, request));
        ask(QueueRequest::OpenLane { queue: last, writer: 1 }).unwrap();
        ask(QueueRequest::OpenReader { first: last, count: 1, reader: 2 }).unwrap();
        opened.put(0, &form.encode(1)).unwrap();
        if leaves {
            ask(QueueRequest::CloseLane { queue: last, lane: 0, writer: 1 }).unwrap();
            ask(QueueRequest::CloseReader { first: last, reader: 2 }).unwrap();
        }
        drop(raw);
        opened.get(0, &mut [0; 8]).unwrap();
    }
    pool.client(0).status().unwrap();
}

/// The node looks at each request and each append anew: at the right to write the region, at who it is, and at what it says.
// FEATURE: VQ-F16
#[test]
fn a_port_has_the_rights_of_its_grant_and_its_own_number_alone() {
    let pool = TestPool::start(1, 64 << 20);
    let (view, mut session) = region(pool.nodes[0].socket(), LEN);
    let reading = reopened(&mut session, &view.name);
    let form = QueueForm { unit: Unit::Blocks { len: 16 }, depth: 4, ports: 2, overflow: Overflow::Refuse };
    pool.client(0).open(&view.name).unwrap().make_queues(0, 2, &form).unwrap();
    let mut raw = Raw::connect(pool.nodes[0].address());
    let slot = view.layout.extents().next().unwrap().slot;
    let at = |grant| ArrayAt { slot, grant, offset: 0 };
    let ask = |raw: &mut Raw, grant, request| raw.ask(&SyncRequest::Queue(at(grant), request));
    let all = [
        QueueRequest::OpenLane { queue: 0, writer: 1 },
        QueueRequest::ResumeLane { queue: 0, lane: 0, writer: 1 },
        QueueRequest::CloseLane { queue: 0, lane: 0, writer: 1 },
        QueueRequest::OpenReader { first: 0, count: 2, reader: 2 },
        QueueRequest::CloseReader { first: 0, reader: 2 },
        QueueRequest::Free { queue: 0, lane: 0, reader: 2, head: 0 },
        QueueRequest::Tell { queue: 0, lane: 0, reader: 2 },
        QueueRequest::Leave { queue: 0, reader: 2 },
        QueueRequest::TakeReady { reader: 2 },
    ];
    let append = |grant, front: AppendFront, units: &[u8]| {
        let operand = [&front.encode()[..], units].concat();
        let command = Command::new(Op::Append { lane: 0 }, 0, slot, grant, &Shape::contiguous(0, operand.len() as u64));
        (vec![(command, Vec::new())], operand)
    };
    let front = AppendFront { queue: 0, writer: PortId(1), seq: 0 };
    let mut forged = view.grants[0];
    forged.0[0] ^= 1;
    for grant in [reading.grants[0], forged] {
        for request in all {
            assert!(matches!(ask(&mut raw, grant, request), Err(Error::GrantRefused { .. })), "{request:?}");
        }
        let (commands, operand) = append(grant, front, &[7; 16]);
        assert!(matches!(refused_commands(&mut raw, &commands, &operand), Error::GrantRefused { .. }));
    }
    let grant = view.grants[0];
    assert_eq!(ask(&mut raw, grant, all[0]), Ok(SyncAnswer::Lane { lane: 0, accepted: 0 }));
    assert_eq!(ask(&mut raw, grant, all[3]), Ok(SyncAnswer::Done));
    // As another than the one who opened the port, beyond the last queue, and out of turn.
    for request in [
        QueueRequest::Free { queue: 0, lane: 0, reader: 3, head: 0 },
        QueueRequest::Tell { queue: 0, lane: 0, reader: 3 },
        QueueRequest::Leave { queue: 1, reader: 3 },
        QueueRequest::TakeReady { reader: 3 },
        QueueRequest::OpenReader { first: 1, count: 1, reader: 3 },
    ] {
        assert!(matches!(ask(&mut raw, grant, request), Err(Error::SecondReader { .. })), "{request:?}");
    }
    for request in [
        QueueRequest::OpenLane { queue: 2, writer: 1 },
        QueueRequest::Leave { queue: u64::MAX, reader: 2 },
        QueueRequest::OpenReader { first: 1, count: u64::MAX, reader: 3 },
        QueueRequest::Free { queue: 0, lane: 0, reader: 2, head: 8 },
    ] {
        assert!(matches!(ask(&mut raw, grant, request), Err(Error::NoQueue { .. })), "{request:?}");
    }
    let refused = |raw: &mut Raw, front, units: &[u8]| {
        let (commands, operand) = append(grant, front, units);
        refused_commands(raw, &commands, &operand)
    };
    assert!(matches!(refused(&mut raw, AppendFront { writer: PortId(9), ..front }, &[7; 16]), Error::NotAWriter { .. }));
    assert!(matches!(refused(&mut raw, AppendFront { seq: 1, ..front }, &[7; 16]), Error::Garbage { .. }));
    assert!(matches!(refused(&mut raw, front, &[7; 17]), Error::Garbage { .. }));
    assert!(matches!(refused(&mut raw, AppendFront { queue: 2, ..front }, &[7; 16]), Error::NoQueue { .. }));
    assert_eq!(ask(&mut raw, grant, all[8]), Ok(SyncAnswer::Ready { count: 0, queues: [0; QUEUE_READY_COUNT_MAX] }));
    raw.assert_alive();
}
