//! The halo of a lattice: what the hosts spend on packing and unpacking, and what is left of it with vector commands.
use super::banks::Request;
use super::boards::{Board, INTERFACES};
use super::machine::Machine;
use super::rules::RULES;
use super::vector;
use crate::claim::{Check, Judgement, Limit};
use crate::outcome::{Axis, Cell, Outcome, Plot, Table};
use crate::parameters::Parameters;
use crate::time::Picos;

/// A lattice of equal edges, first dimension densest.
#[derive(Clone, Copy, Debug)]
pub struct Lattice {
    /// Dimensions.
    pub dimensions: u32,
    /// Sites along each.
    pub edge: u64,
    /// Bytes sent per site of a face.
    pub site_bytes: u64,
    /// Bytes between neighbouring sites.
    pub site_stride: u64,
}

impl Lattice {
    fn new(parameters: &Parameters) -> Lattice {
        Lattice {
            dimensions: parameters.count("halo.dimensions") as u32,
            edge: parameters.count("halo.edge"),
            site_bytes: parameters.bytes("halo.site"),
            site_stride: parameters.bytes("halo.site_stride"),
        }
    }

    /// Sites of one face.
    pub fn face_sites(&self) -> u64 {
        self.edge.pow(self.dimensions - 1)
    }

    /// Addresses of the face across `dimension`, in memory order.
    pub fn face(&self, dimension: u32) -> Vec<Request> {
        let below = self.edge.pow(dimension);
        (0..self.face_sites())
            .map(|index| {
                let site = index / below * below * self.edge + index % below;
                Request { address: site * self.site_stride, len_bytes: self.site_bytes }
            })
            .collect()
    }

    /// Commands of one constant stride that cover the face: the sites below the dimension, or those above, in a run each.
    pub fn commands(&self, dimension: u32) -> u64 {
        let below = self.edge.pow(dimension);
        below.min(self.face_sites() / below)
    }

    /// The stride that host software walks the face with.
    fn host_stride(&self, dimension: u32) -> u64 {
        if dimension == 0 { self.site_stride * self.edge } else { self.site_stride }
    }
}

/// One column of the break-down.
type Part = fn(&Exchange) -> Picos;

/// Times of the halo of one dimension, both faces, at the sending and the receiving side together.
struct Exchange {
    host: Picos,
    commands: Picos,
    board: Picos,
}

fn exchange(parameters: &Parameters, machine: &Machine, lattice: Lattice, dimension: u32) -> Exchange {
    let faces = 2;
    let sites = lattice.face_sites();
    let copy = Picos::from_bytes(sites * lattice.site_bytes, parameters.bytes_per_second("host.memory_rate"));
    let walked = vector::host_gather(parameters, lattice.site_bytes, lattice.host_stride(dimension), sites);
    // One command gathers here, one scatters there; each end looks once for its completion.
    let command = machine.host.command(machine.nic.command_bytes.vector) + machine.host.load();
    Exchange {
        host: (walked + copy) * (2 * faces),
        commands: command * (2 * faces * lattice.commands(dimension)),
        board: machine.memory.run(&lattice.face(dimension)).finished * (2 * faces),
    }
}

/// Packing and unpacking of a halo by hosts and by boards: figure 5.
// FEATURE: D3-F25
pub fn halo(parameters: &Parameters) -> Outcome {
    let mut outcome = Outcome::new();
    let lattice = Lattice::new(parameters);
    let machine = Machine::with(parameters, Board::Dimmnet3, &INTERFACES[1]);
    let columns = [
        ("faces across dimension", ""),
        ("pieces", "count"),
        ("vector commands", "count"),
        ("host packs and unpacks", "us"),
        ("host issues commands", "us"),
        ("boards gather and scatter", "us"),
    ];
    let mut table =
        Table::new(format!("Halo of a {}-dimensional lattice of edge {}", lattice.dimensions, lattice.edge), &columns);
    let exchanges: Vec<Exchange> =
        (0..lattice.dimensions).map(|dimension| exchange(parameters, &machine, lattice, dimension)).collect();
    for (dimension, exchange) in exchanges.iter().enumerate() {
        table.row(vec![
            (dimension as u64 + 1).into(),
            (2 * lattice.face_sites()).into(),
            (2 * lattice.commands(dimension as u32)).into(),
            exchange.host.as_us().into(),
            exchange.commands.as_us().into(),
            exchange.board.as_us().into(),
        ]);
    }
    let sum = |part: Part| exchanges.iter().map(part).sum::<Picos>().as_us();
    let (host, commands, board) = (sum(|e| e.host), sum(|e| e.commands), sum(|e| e.board));
    table.row(vec!["all".into(), Cell::Empty(()), Cell::Empty(()), host.into(), commands.into(), board.into()]);
    outcome.tables.push(table);
    let names: Vec<String> = (1..=lattice.dimensions).map(|dimension| format!("dimension {dimension}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut plot = Plot::bars("Halo exchange: who works how long", &names, Axis::new("time", "us"));
    let parts: [(&str, Part); 3] = [
        ("host packs and unpacks", |e| e.host),
        ("host issues commands", |e| e.commands),
        ("boards gather and scatter", |e| e.board),
    ];
    for (name, part) in parts {
        plot.bar(name, &exchanges.iter().map(|exchange| part(exchange).as_us()).collect::<Vec<_>>());
    }
    outcome.plots.push(plot.figure("D3 figure 5"));
    outcome.headline("host time removed", "%", 100.0 * (1.0 - commands / host));
    outcome
}

/// D3-C17.
pub fn packing_removed(parameters: &Parameters) -> Option<Judgement> {
    let lattice = Lattice::new(parameters);
    let machine = Machine::with(parameters, Board::Dimmnet3, &INTERFACES[1]);
    let exchanges: Vec<Exchange> =
        (0..lattice.dimensions).map(|dimension| exchange(parameters, &machine, lattice, dimension)).collect();
    let sum = |part: Part| exchanges.iter().map(part).sum::<Picos>().as_us();
    let (host, commands, board) = (sum(|e| e.host), sum(|e| e.commands), sum(|e| e.board));
    let removed = 100.0 * (1.0 - commands / host);
    Some(Judgement::new(
        format!("{removed:.1} % of {host:.0} us of host time are gone; the boards work {board:.0} us instead"),
        "Faces of a four-dimensional lattice are walked address by address; the host's misses and the banks' timing are public figures, the lattice is chosen.",
        vec![Check::new("host's packing time removed", removed, "%", Limit::Above(RULES.word("most")))],
    ))
}

#[cfg(test)]
mod tests {
    use super::super::parameters;
    use super::*;

    #[test]
    fn faces_hold_each_site_once_and_only_theirs() {
        let lattice = Lattice { dimensions: 3, edge: 4, site_bytes: 8, site_stride: 8 };
        for dimension in 0..3 {
            let mut sites: Vec<u64> = lattice.face(dimension).iter().map(|request| request.address / 8).collect();
            assert!(sites.iter().all(|site| site / 4_u64.pow(dimension) % 4 == 0));
            sites.dedup();
            assert_eq!(sites.len(), 16);
        }
    }

    #[test]
    fn outer_faces_need_one_command() {
        let lattice = Lattice::new(&parameters());
        assert_eq!([0, 1, 2, 3].map(|dimension| lattice.commands(dimension)), [1, 16, 16, 1]);
    }
}
