//! Which links a message passes between two nodes, and how long it waits for them.
//!
//! Links have one direction and one rate. A message holds each link for as long as its bytes take there; its head goes on to the
//! next link meanwhile, as in switches that forward before they have the whole. A message that finds a link taken waits in front
//! of it, and no buffer runs full: what is lost by back-pressure on links behind is not in the model.
use crate::station::Station;
use crate::time::Picos;

/// How nodes are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One switch with a port for each node.
    Switch,
    /// Three levels of equal switches with as many links up as down; the target's number chooses the way up.
    ///
    /// SOURCE: C. Leiserson, "Fat-Trees" (IEEE Trans. Computers 1985); three levels of k-port switches for k^3/4 nodes as in M.
    /// Al-Fares, A. Loukissas, A. Vahdat, "A Scalable, Commodity Data Center Network Architecture" (SIGCOMM 2008).
    FatTree,
    /// One medium that all nodes share.
    Bus,
    /// A switch at each node, joined to its six neighbours; messages go along the first dimension, then the second, then the third.
    Torus,
}

impl Kind {
    /// All, by the names that users give.
    pub const ALL: [(&str, Kind); 4] =
        [("switch", Kind::Switch), ("bus", Kind::Bus), ("fat-tree", Kind::FatTree), ("torus", Kind::Torus)];

    /// A kind by name.
    pub fn find(name: &str) -> Option<Kind> {
        Kind::ALL.iter().find(|(known, _)| *known == name).map(|(_, kind)| *kind)
    }
}

/// The links of a network, and when each is free.
#[derive(Clone, Debug)]
pub struct Topology {
    kind: Kind,
    nodes: usize,
    /// Ports of a fat tree's switch, halved: hosts of a switch, switches of a level in a pod.
    half: usize,
    /// Lengths of a torus.
    lengths: [usize; 3],
    links: Vec<Station>,
    /// What a link that was idle for long passes at once, as time at its rate.
    burst: Picos,
}

/// The passage of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passed {
    /// Its last byte leaves the last link.
    pub end: Picos,
    /// How long it waited for links that others had.
    pub waited: Picos,
    /// Switches after the first.
    pub hops: u64,
}

impl Topology {
    /// Idle links between `nodes` nodes.
    pub fn new(kind: Kind, nodes: usize) -> Topology {
        let half = (1..).find(|half| 2 * half * half * half >= nodes).unwrap_or(1);
        let lengths = lengths(nodes);
        let inner = match kind {
            Kind::Switch | Kind::Bus => 0,
            // Up and down, between hosts' and middle switches, and between those and the top.
            Kind::FatTree => 4 * (2 * half * half) * half,
            Kind::Torus => 6 * nodes,
        };
        Topology { kind, nodes, half, lengths, links: vec![Station::new(); 2 * nodes + inner], burst: Picos::ZERO }
    }

    /// The same where links have credit, as token buckets and the shapers of clouds do: one that was idle passes what would have taken it
    /// `burst` at once, and saves up for the next.
    pub fn with_burst(self, burst: Picos) -> Topology {
        Topology { burst, ..self }
    }

    /// The links from one node to another, in order: the node's own first, the target's last.
    pub fn route(&self, from: usize, to: usize) -> Vec<usize> {
        if self.kind == Kind::Bus {
            return vec![0];
        }
        let mut links = vec![from];
        match self.kind {
            Kind::Switch | Kind::Bus => {}
            Kind::FatTree => self.climb(from, to, &mut links),
            Kind::Torus => self.walk(from, to, &mut links),
        }
        links.push(self.nodes + to);
        links
    }

    /// Up to the lowest switch above both, and down.
    fn climb(&self, from: usize, to: usize, links: &mut Vec<usize>) {
        let (half, inner) = (self.half, 2 * self.nodes);
        let (edge, target) = (from / half, to / half);
        if edge == target {
            return;
        }
        let level = 2 * half * half * half;
        let (middle, top) = (to % half, to / half % half);
        let at = |level_start: usize, switch: usize, port: usize| inner + level_start + switch * half + port;
        links.push(at(0, edge, middle));
        let (pod, target_pod) = (edge / half, target / half);
        if pod != target_pod {
            links.push(at(level, pod * half + middle, top));
            links.push(at(2 * level, target_pod * half + middle, top));
        }
        links.push(at(3 * level, target, middle));
    }

    /// The shorter way round in each dimension.
    fn walk(&self, from: usize, to: usize, links: &mut Vec<usize>) {
        let [x, y, _] = self.lengths;
        let place = |node: usize| [node % x, node / x % y, node / (x * y)];
        let (mut here, target) = (place(from), place(to));
        for dimension in 0..3 {
            let len = self.lengths[dimension];
            while here[dimension] != target[dimension] {
                let ahead = (target[dimension] + len - here[dimension]) % len;
                let is_up = ahead <= len / 2;
                let node = here[0] + x * (here[1] + y * here[2]);
                links.push(2 * self.nodes + node * 6 + 2 * dimension + usize::from(is_up));
                here[dimension] = if is_up { (here[dimension] + 1) % len } else { (here[dimension] + len - 1) % len };
            }
        }
    }

    /// Sends a message that holds each link for `span`, and whose head takes `hop` for each switch after the first.
    pub fn send(&mut self, from: usize, to: usize, asked: Picos, span: Picos, hop: Picos) -> Passed {
        let route = self.route(from, to);
        let (mut head, mut waited, mut end) = (asked, Picos::ZERO, asked);
        for (position, link) in route.iter().enumerate() {
            if position > 1 {
                head += hop;
            }
            // With credit the work began before it was asked for.
            let taken = self.links[*link].take(head.since(self.burst), span);
            let start = taken.start.max(head);
            waited += start - head;
            head = start;
            end = taken.end.max(head);
        }
        Passed { end, waited, hops: route.len().saturating_sub(2) as u64 }
    }

    /// The share of `time` in which the busiest link was taken.
    pub fn busiest(&self, time: Picos) -> f64 {
        let busy = self.links.iter().map(Station::busy).max().unwrap_or_default();
        if time == Picos::ZERO { 0.0 } else { busy.0 as f64 / time.0 as f64 }
    }
}

/// Three lengths whose product is `nodes`, as near to each other as can be.
fn lengths(nodes: usize) -> [usize; 3] {
    let divisors = |of: usize| (1..=of).filter(move |length| of.is_multiple_of(*length));
    let all = divisors(nodes).flat_map(|x| divisors(nodes / x).map(move |y| [x, y, nodes / x / y]));
    let spread = |lengths: &[usize; 3]| lengths.iter().max().unwrap_or(&1) - lengths.iter().min().unwrap_or(&1);
    all.filter(|[x, y, z]| x <= y && y <= z).min_by_key(spread).unwrap_or([1, 1, nodes])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_with_credit_passes_a_burst_at_once_and_then_its_rate() {
        let mut links = Topology::new(Kind::Switch, 2).with_burst(Picos(100));
        let mut send = |asked| links.send(0, 1, Picos(asked), Picos(60), Picos::ZERO).end;
        assert_eq!([send(1000), send(1000), send(1000)], [Picos(1000), Picos(1020), Picos(1080)]);
        // 80 units later as much is saved again, and never more than a burst.
        assert_eq!([send(1160), send(9000), send(9000)], [Picos(1160), Picos(9000), Picos(9020)]);
    }

    #[test]
    fn all_that_share_a_bus_wait_for_each_other() {
        let mut bus = Topology::new(Kind::Bus, 3);
        let mut send = |from, to| bus.send(from, to, Picos(10), Picos(5), Picos(1)).end;
        assert_eq!([send(0, 1), send(1, 0), send(2, 1)], [Picos(15), Picos(20), Picos(25)]);
    }

    #[test]
    fn ways_are_as_long_as_the_tree_is_high() {
        let tree = Topology::new(Kind::FatTree, 1024);
        assert_eq!(tree.half, 8);
        let links = |to: usize| tree.route(0, to).len();
        assert_eq!([links(7), links(8), links(63), links(64), links(1023)], [2, 4, 4, 6, 6]);
    }

    #[test]
    fn a_torus_is_walked_the_shorter_way_round() {
        let torus = Topology::new(Kind::Torus, 1024);
        assert_eq!(torus.lengths, [8, 8, 16]);
        let hops = |to: usize| torus.route(0, to).len() - 2;
        assert_eq!([hops(1), hops(7), hops(4), hops(8 * 7), hops(64 * 8), hops(4 + 8 * 4 + 64 * 8)], [1, 1, 4, 1, 8, 16]);
    }

    #[test]
    fn every_way_uses_links_that_are_there_and_none_twice() {
        for kind in [Kind::Switch, Kind::FatTree, Kind::Torus] {
            for nodes in [2, 5, 16, 54] {
                let topology = Topology::new(kind, nodes);
                for (from, to) in (0..nodes).flat_map(|from| (0..nodes).map(move |to| (from, to))).filter(|(a, b)| a != b) {
                    let mut route = topology.route(from, to);
                    assert_eq!((route[0], route[route.len() - 1]), (from, nodes + to), "{kind:?}");
                    assert!(route.iter().all(|link| *link < topology.links.len()), "{kind:?} {nodes}: {from} to {to}");
                    let count = route.len();
                    route.sort_unstable();
                    route.dedup();
                    assert_eq!(route.len(), count, "{kind:?} {nodes}: {from} to {to}");
                }
            }
        }
    }

    #[test]
    fn messages_to_one_node_wait_for_each_other_and_others_do_not() {
        let mut tree = Topology::new(Kind::FatTree, 16);
        let send = |tree: &mut Topology, from, to| tree.send(from, to, Picos::ZERO, Picos(100), Picos(10)).waited;
        assert_eq!(send(&mut tree, 1, 0), Picos::ZERO);
        assert_eq!(send(&mut tree, 2, 3), Picos::ZERO);
        assert!(send(&mut tree, 4, 0) > Picos::ZERO);
        let alone = Topology::new(Kind::FatTree, 16).send(0, 15, Picos::ZERO, Picos(100), Picos(10));
        assert_eq!(alone, Passed { end: Picos(140), waited: Picos::ZERO, hops: 4 });
    }

    #[test]
    fn a_shift_of_all_nodes_uses_the_whole_tree_and_crowds_the_torus() {
        let last = |kind: Kind| {
            let mut topology = Topology::new(kind, 1024);
            (0..1024).map(|node| topology.send(node, (node + 512) % 1024, Picos::ZERO, Picos(1_000), Picos(1)).end).max().unwrap()
        };
        assert_eq!(last(Kind::FatTree), Picos(1_004));
        assert!(last(Kind::Torus) > Picos(5_000), "eight hops in one dimension share its links");
    }
}
