//! NUMA nodes of a host, and the rule by which a lender chooses among them. Its input is the text of the kernel's files.
//!
//! | wish | policy of the kernel |
//! |---|---|
//! | one NUMA node | `MPOL_BIND`: memory of that node, or none |
//! | several | `MPOL_INTERLEAVE`: page by page, so that all their channels serve one region |
//!
//! Bound memory that runs out would end the process. So the lender keeps some of these nodes' memory free, as it does for the machine.
//! `MPOL_PREFERRED` would take memory of nodes that the operator did not name, and say nothing.

use crate::limits::NUMA_NODE_COUNT_MAX;
use crate::size::Size;
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

/// Some NUMA nodes, by number. Written as the kernel does: `0-2,5`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NumaSet(BTreeSet<u32>);

impl NumaSet {
    /// Numbers of the nodes, ascending.
    pub fn numbers(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter().copied()
    }

    /// Number of nodes.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Bits of the nodes, as system calls take them.
    pub fn mask(&self) -> Box<[u64]> {
        let mut words = vec![0u64; (NUMA_NODE_COUNT_MAX / u64::BITS) as usize];
        for number in self.numbers() {
            if let Some(word) = words.get_mut((number / u64::BITS) as usize) {
                *word |= 1 << (number % u64::BITS);
            }
        }
        words.into_boxed_slice()
    }
}

impl FromIterator<u32> for NumaSet {
    fn from_iter<T: IntoIterator<Item = u32>>(numbers: T) -> NumaSet {
        NumaSet(numbers.into_iter().collect())
    }
}

impl FromStr for NumaSet {
    type Err = ();

    fn from_str(text: &str) -> Result<NumaSet, ()> {
        let number = |text: &str| text.parse::<u32>().ok().filter(|number| *number < NUMA_NODE_COUNT_MAX).ok_or(());
        let mut set = BTreeSet::new();
        for part in text.trim().split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (number(first)?, number(last)?);
            if first > last {
                return Err(());
            }
            set.extend(first..=last);
        }
        Ok(NumaSet(set))
    }
}

impl fmt::Display for NumaSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut runs: Vec<(u32, u32)> = Vec::new();
        for number in self.numbers() {
            match runs.last_mut() {
                Some((_, last)) if last.checked_add(1) == Some(number) => *last = number,
                _ => runs.push((number, number)),
            }
        }
        let run = |(first, last): &(u32, u32)| if first == last { first.to_string() } else { format!("{first}-{last}") };
        f.pad(&runs.iter().map(run).collect::<Vec<_>>().join(","))
    }
}

/// NUMA nodes that an operator wants to lend from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NumaWish {
    /// All that have memory.
    All,
    /// These.
    These(NumaSet),
}

impl FromStr for NumaWish {
    type Err = String;

    fn from_str(text: &str) -> Result<NumaWish, String> {
        match text {
            "all" => Ok(NumaWish::All),
            _ => {
                text.parse().map(NumaWish::These).map_err(|()| "write numbers of NUMA nodes, as in 0 or 0,2-3, or all".to_owned())
            }
        }
    }
}

/// A NUMA node, as the kernel tells of it. Unreadable text counts as none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NumaNode {
    /// Its number.
    pub number: u32,
    /// Number of its processors: none for memory beyond the processors, as of CXL.
    pub processors: u32,
    /// Bytes of its memory.
    pub total: u64,
    /// Bytes of it that are free, or that the kernel takes back for others: pages of files, and caches of its own.
    pub free: u64,
    /// Distances to all nodes in their order; 10 is its own.
    pub distances: Vec<u32>,
}

impl NumaNode {
    /// Reads the node of a folder's name. `file` gives the text of a file in the folder.
    pub fn read(folder: &str, file: impl Fn(&str) -> Option<String>) -> Option<NumaNode> {
        let number = folder.strip_prefix("node")?.parse().ok().filter(|number| *number < NUMA_NODE_COUNT_MAX)?;
        let about = file("meminfo").unwrap_or_default();
        let processors = file("cpulist").and_then(|text| count(&text)).unwrap_or(0);
        let distances = file("distance").unwrap_or_default();
        let distances = distances.split_whitespace().map_while(|text| text.parse().ok());
        let fields = ["MemFree:", "Active(file):", "Inactive(file):", "SReclaimable:"];
        let free = fields.into_iter().filter_map(|name| field(&about, name)).fold(0, u64::saturating_add);
        let total = field(&about, "MemTotal:").unwrap_or(0);
        let distances = distances.take(NUMA_NODE_COUNT_MAX as usize).collect();
        Some(NumaNode { number, processors, total, free: free.min(total), distances })
    }
}

/// A field of a NUMA node's `meminfo`, in bytes: `Node 0 MemFree: 12 kB`.
fn field(meminfo: &str, name: &str) -> Option<u64> {
    let value = meminfo.lines().find_map(|line| line.split_once(name).filter(|(front, _)| front.ends_with(' ')))?.1;
    value.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1 << 10)
}

/// Numbers in a list of processors. There are more processors than a [`NumaSet`] may have nodes.
fn count(list: &str) -> Option<u32> {
    let run = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        last.parse::<u32>().ok()?.checked_sub(first.parse().ok()?)?.checked_add(1)
    };
    list.trim().split(',').filter(|part| !part.is_empty()).try_fold(0u32, |sum, part| sum.checked_add(run(part)?))
}

/// The NUMA nodes of a host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Topology {
    /// The nodes, by number.
    pub nodes: Vec<NumaNode>,
    /// Nodes whose memory this process may take; `None` where the kernel does not say.
    pub allowed: Option<NumaSet>,
}

impl Topology {
    /// The nodes that a lender of `bytes` bytes lends from.
    ///
    /// **Errors**: the fault of the wish, and the nodes that could be named instead.
    pub fn choose(&self, wish: &NumaWish, bytes: u64) -> Result<NumaSet, String> {
        let may_take = |number: u32| self.allowed.as_ref().is_none_or(|allowed| allowed.0.contains(&number));
        let useful: NumaSet =
            self.nodes.iter().filter(|node| node.total > 0 && may_take(node.number)).map(|node| node.number).collect();
        if useful.count() == 0 {
            return Err("this kernel tells of no NUMA nodes with memory that this process may take; leave --numa out".to_owned());
        }
        let set = match wish {
            NumaWish::All => useful.clone(),
            NumaWish::These(set) => set.clone(),
        };
        for number in set.numbers() {
            let fault = match self.nodes.iter().find(|node| node.number == number) {
                None => "is not there",
                Some(node) if node.total == 0 => "has no memory",
                Some(_) if !may_take(number) => "is not for this process (see cpuset.mems of its control group)",
                Some(_) => continue,
            };
            return Err(format!("NUMA node {number} {fault}; name some of {useful}"));
        }
        let free = self.free(&set);
        if bytes > free {
            return Err(format!(
                "NUMA nodes {set} have {} free, and {} are to be lent; lend less, or name more nodes",
                Size(free),
                Size(bytes)
            ));
        }
        Ok(set)
    }

    /// Bytes that are free on some nodes together.
    pub fn free(&self, set: &NumaSet) -> u64 {
        self.of(set).map(|node| node.free).fold(0, u64::saturating_add)
    }

    /// Bytes that some nodes have together.
    pub fn total(&self, set: &NumaSet) -> u64 {
        self.of(set).map(|node| node.total).fold(0, u64::saturating_add)
    }

    fn of(&self, set: &NumaSet) -> impl Iterator<Item = &NumaNode> {
        self.nodes.iter().filter(|node| set.0.contains(&node.number))
    }
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects, reason = "numbers of a test")]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const GIB: u64 = 1 << 30;

    fn node(number: u32, processors: u32, total: u64) -> NumaNode {
        NumaNode { number, processors, total, free: total / 2, distances: Vec::new() }
    }

    fn topology(nodes: &[NumaNode]) -> Topology {
        Topology { nodes: nodes.to_vec(), allowed: None }
    }

    fn these(text: &str) -> NumaWish {
        text.parse().unwrap()
    }

    #[test]
    fn sets_are_read_and_written_as_the_kernel_does() {
        for text in ["0", "0-3", "0,2-3", "7,9,1000-1023"] {
            assert_eq!(text.parse::<NumaSet>().unwrap().to_string(), text);
        }
        assert_eq!(" 1,0\n".parse::<NumaSet>().unwrap().to_string(), "0-1");
        for text in ["", "a", "1-", "-1", "3-1", "1024", "0,,1", "0-99999999999"] {
            assert!(text.parse::<NumaSet>().is_err(), "{text}");
        }
        assert_eq!("all".parse(), Ok(NumaWish::All));
        assert!("some".parse::<NumaWish>().unwrap_err().contains("write numbers"));
        let mask = "0,65,1023".parse::<NumaSet>().unwrap().mask();
        assert_eq!((mask.len(), mask[0], mask[1], mask[15]), (16, 1, 2, 1 << 63));
    }

    #[test]
    fn a_node_is_read_from_the_kernels_files() {
        let meminfo = "Node 1 MemTotal:  2048 kB\nNode 1 MemFree:  512 kB\nNode 1 Inactive(file):  8 kB\n\
                       Node 1 Active(file): 4 kB\nNode 1 SReclaimable: 4 kB\n";
        let file = |name: &str| match name {
            "cpulist" => Some("0-3,8-11\n".to_owned()),
            "meminfo" => Some(meminfo.to_owned()),
            "distance" => Some("20 10\n".to_owned()),
            _ => None,
        };
        let distances = vec![20, 10];
        assert_eq!(
            NumaNode::read("node1", file),
            Some(NumaNode { number: 1, processors: 8, total: 2 << 20, free: 528 << 10, distances })
        );
        assert_eq!(NumaNode::read("has_cpu", file), None);
        assert_eq!(NumaNode::read("node1024", file), None);
        // Unreadable text is no memory and no processor.
        for garbage in
            ["", "\u{0}", "Node x MemTotal: many kB", "Node 1 MemTotal: 99999999999999999999 kB", "5-1", "1-99999999999"]
        {
            let node = NumaNode::read("node3", |_| Some(garbage.to_owned())).unwrap();
            assert_eq!((node.number, node.processors, node.total, node.free), (3, 0, 0, 0), "{garbage}");
        }
        assert_eq!(NumaNode::read("node3", |_| None).unwrap().total, 0);
        // Less is there than is said to be free.
        let odd = NumaNode::read("node0", |_| Some("Node 0 MemTotal: 4 kB\nNode 0 MemFree: 8 kB".to_owned())).unwrap();
        assert_eq!(odd.free, 4096);
    }

    #[test]
    fn wishes_meet_the_nodes_that_are_there() {
        let one = topology(&[node(0, 2, 8 * GIB)]);
        assert_eq!(one.choose(&these("0"), GIB).unwrap().to_string(), "0");
        assert_eq!(one.choose(&NumaWish::All, GIB).unwrap().to_string(), "0");
        assert_eq!(one.choose(&these("1"), GIB).unwrap_err(), "NUMA node 1 is not there; name some of 0");
        let two = topology(&[node(0, 2, 8 * GIB), node(1, 2, 8 * GIB)]);
        assert_eq!(two.choose(&these("0-1"), 8 * GIB).unwrap().to_string(), "0-1");
        assert_eq!(
            two.choose(&these("1"), 5 * GIB).unwrap_err(),
            "NUMA nodes 1 have 4 GiB free, and 5 GiB are to be lent; lend less, or name more nodes"
        );
        // Four: node 2 is memory beyond the processors, node 3 has processors alone.
        let four = topology(&[node(0, 4, 8 * GIB), node(1, 4, 8 * GIB), node(2, 0, 64 * GIB), node(3, 4, 0)]);
        assert_eq!(four.choose(&these("2"), 32 * GIB).unwrap().to_string(), "2");
        assert_eq!(four.choose(&NumaWish::All, GIB).unwrap().to_string(), "0-2");
        assert_eq!(four.choose(&these("2-3"), GIB).unwrap_err(), "NUMA node 3 has no memory; name some of 0-2");
        assert_eq!((four.total(&"1-2".parse().unwrap()), four.free(&"1-2".parse().unwrap())), (72 * GIB, 36 * GIB));
    }

    #[test]
    fn nodes_that_are_not_for_this_process_are_refused() {
        let allowed = Some("1".parse().unwrap());
        let two = Topology { allowed, ..topology(&[node(0, 2, 8 * GIB), node(1, 2, 8 * GIB)]) };
        assert_eq!(two.choose(&NumaWish::All, GIB).unwrap().to_string(), "1");
        let refused = two.choose(&these("0"), GIB).unwrap_err();
        assert!(refused.starts_with("NUMA node 0 is not for this process") && refused.ends_with("name some of 1"), "{refused}");
        let none = Topology { allowed: Some(NumaSet::default()), ..two };
        assert!(none.choose(&these("0"), 1).unwrap_err().contains("leave --numa out"));
        assert!(topology(&[]).choose(&NumaWish::All, 1).is_err());
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text: String, folder: String) {
            let _ = text.parse::<NumaWish>();
            let _ = NumaNode::read(&folder, |_| Some(text.clone()));
            if let Some(node) = NumaNode::read("node0", |_| Some(text.clone())) {
                prop_assert!(node.free <= node.total);
            }
        }

        #[test]
        fn a_set_survives_its_text(numbers: std::collections::BTreeSet<u16>) {
            let set: NumaSet = numbers.iter().map(|number| u32::from(*number) % NUMA_NODE_COUNT_MAX).collect();
            if set.count() > 0 {
                prop_assert_eq!(set.to_string().parse::<NumaSet>(), Ok(set));
            }
        }
    }
}
