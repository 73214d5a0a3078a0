//! The memory behind what nodes lend, in words: kind, NUMA nodes, huge pages.

use hanare::{Backing, BackingKind, BackingPages, Gid, NodeId, NodeStatus, Pool, Region, Residence};
use hanare_protocol::numa::NumaSet;
use hanare_protocol::size::Size;
use serde_json::{Value, json};

/// A node's reply to the question for its memory, or why there is none.
pub struct ToldMemory {
    /// The node.
    pub node: NodeId,
    /// Its reply.
    backing: Result<Backing, String>,
    /// The bytes that were asked for: a region's, where this user may read it, or all that the node lends.
    residence: Option<Residence>,
}

/// Replies of some nodes for a region, which is opened where this user may read it; or for all that they lend.
pub fn at_nodes(pool: &Pool, nodes: &[NodeStatus], region: Option<Gid>, opened: Option<&Region>) -> Vec<ToldMemory> {
    let ask = |node: &NodeStatus| match pool.backing(node, opened.as_slice()) {
        Ok(Some(backing)) => ToldMemory::new(node.node, backing, region),
        Ok(None) => ToldMemory::not(node.node, format!("not told: {} speaks an older version", node.node)),
        Err(error) => ToldMemory::not(node.node, format!("not told: {error}")),
    };
    // Together, because one that does not answer would hold up those behind it.
    std::thread::scope(|scope| {
        let threads: Vec<_> = nodes.iter().map(|node| scope.spawn(move || ask(node))).collect();
        threads.into_iter().filter_map(|thread| thread.join().ok()).collect()
    })
}

impl ToldMemory {
    fn new(node: NodeId, backing: Backing, region: Option<Gid>) -> ToldMemory {
        let of_region = |gid| backing.regions.iter().find(|(told, _)| *told == gid).map(|(_, residence)| residence.clone());
        let residence = region.map_or_else(|| Some(backing.all.clone()), of_region);
        ToldMemory { node, backing: Ok(backing), residence }
    }

    fn not(node: NodeId, why: String) -> ToldMemory {
        ToldMemory { node, backing: Err(why), residence: None }
    }

    /// A line for people, behind the node's name.
    pub fn in_words(&self) -> String {
        let backing = match &self.backing {
            Ok(backing) => backing,
            Err(why) => return why.clone(),
        };
        let kind = kind_in_words(backing);
        match &self.residence {
            Some(residence) if residence.len > 0 => format!("{kind}; {}", residence_in_words(residence)),
            _ => kind,
        }
    }

    /// For programs.
    pub fn value(&self) -> Value {
        let backing = match &self.backing {
            Ok(backing) => backing,
            Err(why) => return json!({ "node": self.node.0, "error": why }),
        };
        let mut value = json!({
            "node": self.node.0, "kind": kind_name(backing.kind), "pages": pages_name(backing.pages), "numa_wish": backing.wish,
        });
        if let Some(residence) = &self.residence {
            let numa = residence.numa.iter().map(|(number, bytes)| json!({ "numa_node": number, "bytes": bytes }));
            value["bytes"] = residence.len.into();
            value["numa"] = numa.collect();
            value["absent"] = residence.absent.into();
            value["untold"] = residence.untold().into();
            value["huge"] = residence.huge.into();
            value["estimate"] = residence.is_estimate.into();
        }
        value
    }
}

fn kind_name(kind: BackingKind) -> &'static str {
    match kind {
        BackingKind::Memory => "memory",
        BackingKind::DaxDevice => "dax device",
        BackingKind::DaxFile => "dax file",
        BackingKind::MemoryFile => "memory file",
        BackingKind::DiskFile => "disk file",
    }
}

fn pages_name(pages: BackingPages) -> &'static str {
    match pages {
        BackingPages::Huge => "huge",
        BackingPages::Transparent => "transparent",
        BackingPages::Small => "small",
    }
}

/// `main memory bound to NUMA nodes 0-1, small pages`.
fn kind_in_words(backing: &Backing) -> String {
    let pages = match backing.pages {
        BackingPages::Huge => "reserved huge pages",
        BackingPages::Transparent => "transparent huge pages",
        BackingPages::Small => "small pages",
    };
    let set = backing.wish.iter().copied().collect::<NumaSet>();
    match (backing.kind, backing.wish.len()) {
        (BackingKind::Memory, 0) => format!("main memory, {pages}"),
        (BackingKind::Memory, 1) => format!("main memory bound to NUMA node {set}, {pages}"),
        (BackingKind::Memory, _) => format!("main memory of NUMA nodes {set} in turn, {pages}"),
        (BackingKind::DaxDevice, _) => "a DAX device".to_owned(),
        (BackingKind::DaxFile, _) => "a file on a DAX file system".to_owned(),
        (BackingKind::MemoryFile, _) => "a file in main memory (tmpfs)".to_owned(),
        (BackingKind::DiskFile, _) => "a file on a disk, which the kernel writes and reads".to_owned(),
    }
}

/// `64 MiB on NUMA node 0, 2 MiB not taken yet, 32 MiB on huge pages`.
fn residence_in_words(residence: &Residence) -> String {
    let about = if residence.is_estimate { "about " } else { "" };
    let bytes = |bytes: u64, place: String| (bytes > 0).then(|| format!("{about}{} {place}", Size(bytes)));
    let numa = residence.numa.iter().filter_map(|(number, count)| bytes(*count, format!("on NUMA node {number}")));
    let absent = bytes(residence.absent, "not in memory yet".to_owned());
    let untold = bytes(residence.untold(), "on NUMA nodes that the kernel does not tell".to_owned());
    let huge = match residence.huge {
        Some(0) => Some("none on huge pages".to_owned()),
        Some(count) => bytes(count, "on huge pages".to_owned()),
        None => None,
    };
    numa.chain(absent).chain(untold).chain(huge).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_told_in_words() {
        let all = Residence {
            len: 6 << 20,
            numa: [(0, 4 << 20), (2, 1 << 20)].into(),
            absent: 1 << 20,
            huge: Some(0),
            is_estimate: false,
        };
        let backing = |kind, wish: &[u32], all: &Residence| Backing {
            kind,
            pages: BackingPages::Small,
            wish: wish.into(),
            all: all.clone(),
            regions: Vec::new(),
        };
        let words = |backing| ToldMemory::new(NodeId(1), backing, None).in_words();
        assert_eq!(
            words(backing(BackingKind::Memory, &[0, 1, 2], &all)),
            "main memory of NUMA nodes 0-2 in turn, small pages; 4 MiB on NUMA node 0, 1 MiB on NUMA node 2, 1 MiB not in memory yet, none on huge pages"
        );
        assert_eq!(
            words(backing(BackingKind::Memory, &[2], &Residence::default())),
            "main memory bound to NUMA node 2, small pages"
        );
        let sampled = Residence { len: 1 << 30, huge: None, is_estimate: true, ..Residence::default() };
        assert_eq!(
            words(backing(BackingKind::DaxFile, &[], &sampled)),
            "a file on a DAX file system; about 1 GiB on NUMA nodes that the kernel does not tell"
        );
        let old = ToldMemory::not(NodeId(1), "not told: node 1 speaks an older version".to_owned());
        assert_eq!(old.in_words(), "not told: node 1 speaks an older version");
        assert_eq!(old.value()["error"], "not told: node 1 speaks an older version");
        // A region that this user may not read: nothing of the node's other memory is taken for it.
        let hidden = ToldMemory::new(NodeId(1), backing(BackingKind::Memory, &[], &all), Some(Gid(7)));
        assert_eq!(hidden.in_words(), "main memory, small pages");
        assert_eq!(hidden.value().get("bytes"), None);
    }
}
