//! A node that is lost with a dictionary's bytes.

use crate::nodes::TestPool;
use hanare::{Error, NodeId, Placement};
use hanare_dict::{Dict, Key, Options, kind};

#[test]
fn bytes_that_went_with_a_node_are_said_to_be_lost() {
    let nodes = TestPool::start(1, 32 << 20);
    let second = nodes.join_process();
    let pool = nodes.client(0);
    let far = Options { placement: Placement::Node(NodeId(1)), buckets: 8, memory: 1 << 20, ..Options::default() };
    let dict = Dict::open(&pool, "far", &far).unwrap();
    let near = Dict::open(&pool, "near", &Options { placement: Placement::Local, ..far.clone() }).unwrap();
    for dict in [&dict, &near] {
        dict.set(&Key::text("key"), kind::PLAIN, b"value").unwrap();
        dict.set(&Key::text("long"), kind::PLAIN, &[1; 5000]).unwrap();
    }
    second.kill();
    let key = Key::text("key");
    let lost: [hanare::Result<()>; 7] = [
        dict.get(&key).map(drop),
        dict.get(&Key::text("long")).map(drop),
        dict.set(&key, kind::PLAIN, b"other"),
        dict.set(&key, kind::PLAIN, &[2; 5000]),
        dict.remove(&key).map(drop),
        dict.len().map(drop),
        dict.sweep().map(drop),
    ];
    for call in lost {
        assert!(matches!(call, Err(Error::NodeLost { .. } | Error::RegionLost { .. })), "{call:?}");
    }
    assert_eq!(near.get(&key).unwrap(), Some((kind::PLAIN, b"value".to_vec())));
    near.set(&key, kind::PLAIN, &[3; 5000]).unwrap();
    assert_eq!(near.get(&key).unwrap().unwrap().1, [3; 5000]);
}
