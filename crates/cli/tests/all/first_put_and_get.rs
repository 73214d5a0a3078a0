//! What one rank puts another one gets, on its own node and on another.

use crate::pool;

use hanare::{CreateOptions, Pool, Strided};
use pool::Nodes;

// FEATURE: RF-F5 RF-F6 D2-F11
#[test]
fn bytes_put_on_one_node_are_got_on_another() {
    let nodes = Nodes::start(2);
    let near = Pool::attach_to(&nodes.nodes[0].socket, None).unwrap();
    let far = Pool::attach_to(&nodes.nodes[1].socket, None).unwrap();
    for (name, len) in [("tiny", 16), ("page", 4096), ("large", 3 << 20)] {
        let bytes: Vec<u8> = (0..len as u32).map(|k| (k.wrapping_mul(2_654_435_761) >> 11) as u8).collect();
        let written = near.create(name, len as u64, &CreateOptions::default()).unwrap();
        written.put(0, &bytes).unwrap();
        let mut back = vec![0; len];
        far.open(name).unwrap().get(0, &mut back).unwrap();
        assert!(back == bytes, "{name}");
    }
}

#[test]
fn a_column_is_one_strided_get() {
    let nodes = Nodes::start(2);
    let pool = Pool::attach_to(&nodes.nodes[1].socket, None).unwrap();
    let region = pool
        .create(
            "matrix",
            64 * 64,
            &CreateOptions { placement: "node=0".parse().unwrap(), mode: 0o600, ..CreateOptions::default() },
        )
        .unwrap();
    region.put(0, &(0..64 * 64).map(|k| (k % 64) as u8).collect::<Vec<_>>()).unwrap();
    let before = pool.traffic();
    let mut column = [0; 64];
    region.get_strided(Strided { offset: 5, block: 1, count: 64, stride: 64 }, &mut column).unwrap();
    assert_eq!(column, [5; 64]);
    assert_eq!(pool.traffic().messages_sent - before.messages_sent, 1, "one message, whatever the stride");
}

#[test]
fn ranks_of_one_launch_see_each_others_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(path("in.bin"), b"from rank 0").unwrap();
    // The second rank waits for the region, as nothing else orders two shells.
    let script = format!(
        "if [ $HANARE_RANK = 0 ]; then {0} region cp {1} word --place node=1; while ! {0} region stat end >/dev/null 2>&1; do sleep 0.01; done; \
         else while ! {0} region stat word >/dev/null 2>&1; do sleep 0.01; done; \
         until [ \"$(cat {2} 2>/dev/null)\" = 'from rank 0' ]; do {0} region cp word {2}; done; {0} region create end 1; fi",
        pool::HANARE,
        path("in.bin"),
        path("out.bin"),
    );
    pool::run(&mut pool::command(&["run", "--nodes", "2", "-n", "2", "--memory", "64M", "--", "sh", "-c", &script])).done();
    assert_eq!(std::fs::read(path("out.bin")).unwrap(), b"from rank 0");
}
