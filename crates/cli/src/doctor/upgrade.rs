//! Obstacles of an upgrade: nodes of two builds, keepers out of reach, and bytes that this host's node still holds.

use crate::drain;
use crate::info::Finding;
use crate::size;
use hanare::{DrainWish, Pool};
use hanare_protocol::wire::control::{NodeStatus, OwnStatus, PoolStatus};
use std::collections::BTreeMap;

/// All that an operator looks at before a node of the pool gets the next build.
pub fn findings(pool: &Pool, status: &PoolStatus) -> Vec<Finding> {
    let own = pool.own_status().ok();
    let keepers = own.as_ref().and_then(keepers);
    [Some(versions(status)), keepers, own.and_then(|own| own_node(pool, &own))].into_iter().flatten().collect()
}

/// The versions of the wire that the pool's nodes speak.
fn versions(status: &PoolStatus) -> Finding {
    let mut nodes: BTreeMap<u32, Vec<&NodeStatus>> = BTreeMap::new();
    status
        .nodes
        .iter()
        .filter(|node| node.alive)
        .for_each(|node| nodes.entry(node.memory.versions.newest).or_default().push(node));
    let Some((newest, _)) = nodes.pop_last() else { return Finding::new("versions", true, "no node is alive".to_owned()) };
    if nodes.is_empty() {
        return Finding::new("versions", true, format!("all nodes speak wire version {newest}"));
    }
    let older = |(version, nodes): (&u32, &Vec<&NodeStatus>)| {
        let names: Vec<String> = nodes.iter().map(|node| format!("node {} ({})", node.node.0, node.name)).collect();
        format!("{} it is {version}", names.join(", "))
    };
    let older: Vec<String> = nodes.iter().map(older).collect();
    let why = format!("the newest is wire version {newest}, but of {}: what is new waits for all", older.join("; "));
    Finding::new("versions", false, why).remedy("one node after another: hanare node drain N, end it, start the newer build")
}

/// The keepers that answer: while one of them is away, another one may not be ended.
fn keepers(own: &OwnStatus) -> Option<Finding> {
    let away: Vec<&str> =
        own.keepers.iter().filter(|keeper| keeper.is_reached == Some(false)).map(|keeper| keeper.address.as_str()).collect();
    if own.keepers.is_empty() {
        return None;
    }
    let count = own.keepers.len();
    Some(match away.is_empty() {
        true => Finding::new("keepers", true, format!("none of {count} is known to be away: one at a time may be ended")),
        false => Finding::new("keepers", false, format!("of {count}, {} does not answer: end no other one now", away.join(", ")))
            .remedy("start it again, or: hanare keeper replace ADDRESS"),
    })
}

/// Bytes and names that would be lost, or stand still, if this host's node ended now. `None` where this user may not ask that.
fn own_node(pool: &Pool, own: &OwnStatus) -> Option<Finding> {
    let node = pool.node();
    let held = pool.drain(node, &DrainWish::Look).ok()?;
    let name = format!("end of node {}", node.0);
    let stays: Vec<&str> = held.stays.iter().map(|region| region.name.as_str()).take(3).collect();
    if held.left > 0 {
        let mut why = format!("it holds {} of regions: those with one copy go with it", size::show(held.left));
        if !stays.is_empty() {
            why += &format!("; {} does not move now, because it {}", stays.join(", "), drain::reason(&held.stays[0].why));
        }
        return Some(Finding::new(name, false, why).remedy(&format!("hanare node drain {}", node.0)));
    }
    Some(match held.has_coordinator && own.keepers.is_empty() {
        true => {
            Finding::new(name, false, "it is the coordinator, and no keeper follows it: names wait until it is back".to_owned())
                .remedy("start the newer build with the same options: its journal is read again")
        }
        false => Finding::new(name, true, "it holds no bytes of regions".to_owned()),
    })
}
