//! `hanare region cp` to and from regions that a program maps coherently goes through the page directory: its bytes are those
//! that the program loads and stores.

use crate::pool;

use hanare::{Consistency, Pool};
use pool::Nodes;

#[test]
fn files_and_regions_are_copied_to_and_from_what_a_program_maps() {
    let nodes = Nodes::start(2);
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let bytes = |seed: u32| (0..5_000_001u32).map(|k| (k.wrapping_mul(2_654_435_761) >> seed) as u8).collect::<Vec<u8>>();
    let program = Pool::attach_to(&nodes.nodes[1].socket, None).unwrap();
    for place in ["node=0", "node=1", "interleave=4K"] {
        nodes.hanare(&["region", "create", "mapped", "5000001", "--place", place]).done();
        let mapping = program.open("mapped").unwrap().map(Consistency::Coherent).unwrap();
        let mut seen = vec![0; 5_000_001];

        std::fs::write(file("in.bin"), bytes(13)).unwrap();
        nodes.hanare(&["region", "cp", &file("in.bin"), "mapped"]).done();
        mapping.read(0, &mut seen).unwrap();
        assert!(seen == bytes(13), "{place}: loads see what a file brought");

        mapping.write(0, &bytes(11)).unwrap();
        for node in 0..2 {
            nodes.hanare_on(node, &["region", "cp", "mapped", &file("out.bin")]).done();
            assert!(std::fs::read(file("out.bin")).unwrap() == bytes(11), "{place}: a file gets what was stored");
        }

        nodes.hanare(&["region", "cp", "mapped", "plain"]).done();
        program.open("plain").unwrap().get(0, &mut seen).unwrap();
        assert!(seen == bytes(11), "{place}: a region gets what was stored");
        program.open("plain").unwrap().put(0, &bytes(9)).unwrap();
        nodes.hanare(&["region", "cp", "plain", "mapped"]).done();
        mapping.read(0, &mut seen).unwrap();
        assert!(seen == bytes(9), "{place}: loads see what a region brought");
        drop(mapping);
        nodes.hanare(&["region", "rm", "mapped"]).done();
        nodes.hanare(&["region", "rm", "plain"]).done();
    }
}
