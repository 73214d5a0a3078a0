//! `--place near`: a region goes to the host whose programs use it most.

use crate::pool;

use hanare::Pool;
use pool::{Nodes, wait_until};

const LEN: u64 = 4 << 20;

/// The node that has all of a region's bytes; `None` while several have some.
fn home(pool: &Pool, name: &str) -> Option<u32> {
    let stat = pool.stat(name).unwrap();
    match &stat.nodes[..] {
        [(node, _)] => Some(node.0),
        _ => None,
    }
}

#[test]
fn a_region_goes_where_it_is_read_while_programs_use_it() {
    let nodes = Nodes::start(2);
    for (name, place) in [("near", "near"), ("local", "local")] {
        nodes.hanare(&["region", "create", name, "4M", "--place", place]).done();
    }
    assert!(nodes.hanare(&["region", "stat", "near"]).done().contains("hanare.follows"));
    let pools = [0, 1].map(|at| Pool::attach_to(&nodes.nodes[at].socket, None).unwrap());
    let written: Vec<u8> = (0..LEN).map(|at| (at / 3 % 251) as u8).collect();
    let regions = ["near", "local"].map(|name| pools.each_ref().map(|pool| pool.open(name).unwrap()));
    regions.iter().for_each(|region| region[1].put(0, &written).unwrap());
    assert_eq!(["near", "local"].map(|name| home(&pools[0], name)), [Some(0); 2]);
    let mut back = vec![0; LEN as usize];
    wait_until("the region is at its reader", || {
        for region in &regions {
            region[1].get(0, &mut back).unwrap();
            assert!(back == written);
        }
        home(&pools[0], "near") == Some(1)
    });
    assert_eq!(home(&pools[0], "local"), Some(0));
    // Programs of both hosts go on with what they have open.
    regions[0][0].put(0, &[9; 100]).unwrap();
    regions[0][1].get(0, &mut back).unwrap();
    assert!(back[..100] == [9; 100] && back[100..] == written[100..]);
}
