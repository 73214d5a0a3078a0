//! `what-if` sends the messages that the product sends, byte for byte; its times stand in no test of a loaded machine.

use crate::product::{client, nodes};
use hanare::node::Node;
use hanare::{
    Consistency, CreateOptions, Element, Indexed, JobId, JobRank, Modify, NodeId, Operator, Placement, Pool, Rank, Region,
    Strided,
};
use hanare_model::network::Network;
use hanare_model::topology::Kind;
use hanare_model::what_if::costs::SoftwareCosts;
use hanare_model::what_if::pattern;
use hanare_model::what_if::simulate::{self, Setting};

const MIB: u64 = 1 << 20;

/// What the software costs does not change what is sent.
fn setting() -> Setting {
    let costs = SoftwareCosts { cores: 2, ..SoftwareCosts::default() };
    Setting {
        hosts: 1,
        nodes: 2,
        ranks: 1,
        is_blocked: false,
        cores: 2,
        network: Network::here(),
        topology: Kind::Switch,
        costs,
        recorded_crowd: None,
        is_held_up: false,
        is_traced: false,
        is_timed: false,
    }
}

/// Messages and bytes that the model says.
fn predicted(text: &str) -> (u64, u64) {
    let run = simulate::run(&pattern::parse(text).unwrap(), &setting()).unwrap();
    run.traffic.values().fold((0, 0), |sum, traffic| (sum.0 + traffic.messages, sum.1 + traffic.bytes))
}

/// Messages and bytes that a client sent and received meanwhile.
fn counted(pool: &Pool, what: impl FnOnce()) -> (u64, u64) {
    let before = pool.traffic();
    what();
    let after = pool.traffic();
    let messages = after.messages_sent + after.messages_received - before.messages_sent - before.messages_received;
    (messages, after.bytes_sent + after.bytes_received - before.bytes_sent - before.bytes_received)
}

struct World {
    /// Ends with the test.
    _nodes: Vec<Node>,
    client: Pool,
    far: Region,
    spread: Region,
}

impl World {
    fn start() -> World {
        let nodes = nodes(2);
        let client = client(&nodes[0]);
        let create =
            |name, placement| client.create(name, 8 * MIB, &CreateOptions { placement, ..CreateOptions::default() }).unwrap();
        let (far, spread) = (create("far", Placement::Node(NodeId(1))), create("spread", Placement::Interleave(64 << 10)));
        far.put(0, &[1; 8]).unwrap();
        spread.put(0, &vec![1; 256 << 10]).unwrap();
        World { _nodes: nodes, client, far, spread }
    }
}

#[test]
fn commands_send_what_the_model_says() {
    let World { client, far, spread, _nodes } = World::start();
    let mut buffer = vec![0; MIB as usize];
    let count = |text: &str, what: &mut dyn FnMut()| {
        assert_eq!(counted(&client, || (0..5).for_each(|_| what())), predicted(&format!("{text} x5")), "{text}");
    };
    for (text, len) in [("get 8B", 8), ("get 4KiB", 4096), ("get 1MiB", 1 << 20)] {
        count(text, &mut || far.get(0, &mut buffer[..len]).unwrap());
    }
    count("put 64KiB", &mut || far.put(0, &buffer[..64 << 10]).unwrap());
    count("fetch", &mut || {
        far.fetch_word(8, Operator::Add, 1).unwrap();
    });
    let strided = Strided { offset: 0, block: 8, count: 1000, stride: 64 };
    count("strided 1000 of 8B", &mut || far.get_strided(strided, &mut buffer[..8000]).unwrap());
    let list: Vec<u32> = (0..1001).map(|k| k * 37 % 1001).collect();
    count("gather 1001 of 8B", &mut || far.get_shape(Indexed::elements(0, 8, &list[..]), &mut buffer[..8008]).unwrap());
    let (xor, operands) = (Modify { operator: Operator::Xor, element: Element::U64 }, vec![0; 8008]);
    count("update 1001 of 8B", &mut || far.update(Indexed::elements(0, 8, &list[..]), xor, &operands).unwrap());
    count("scatter 1001 of 8B", &mut || far.put_shape(Indexed::elements(0, 8, &list[..]), &operands).unwrap());
    // Half of it is here, and the other half is one strided command.
    count("get 1MiB spread", &mut || spread.get(0, &mut buffer).unwrap());
}

#[test]
fn a_barrier_sends_what_the_model_says() {
    let nodes = nodes(2);
    let rank = JobRank { job: JobId(1), rank: Rank(0), ranks: 1 };
    let client = Pool::attach_to(nodes[1].socket(), Some(rank)).unwrap();
    client.barrier().unwrap();
    assert_eq!(counted(&client, || (0..5).for_each(|_| client.barrier().unwrap())), predicted("barrier x5"));
}

#[test]
fn touches_send_what_the_model_says() {
    let World { client, far, spread: _, _nodes } = World::start();
    let mapping = far.map(Consistency::Coherent).unwrap();
    let mut word = [0; 8];
    // In an order that no stream of faults follows: what is brought ahead is not in the model.
    let pages = [1500, 3, 800, 1999, 411].map(|page: u64| page * 4096);
    let (messages, bytes) = counted(&client, || pages.iter().for_each(|at| mapping.read(*at, &mut word).unwrap()));
    assert_eq!((messages, bytes), predicted("touch x5"));
}

#[test]
fn a_walk_sends_what_the_model_says() {
    let nodes = nodes(2);
    let client = client(&nodes[0]);
    let there = CreateOptions { placement: Placement::Node(NodeId(1)), ..CreateOptions::default() };
    let mapping = client.create("walked", 2 * MIB, &there).unwrap().map(Consistency::Coherent).unwrap();
    let mut word = [0; 8];
    let walk = || (0..2 * MIB / 4096).for_each(|page| mapping.read(page * 4096, &mut word).unwrap());
    assert_eq!(counted(&client, walk), predicted("walk 2MiB"));
}
