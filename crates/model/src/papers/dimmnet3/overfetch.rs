//! What commodity memory moves beside the bytes a program wants: whole lines, pages, and the transfers of Cell's bus.
use super::machine::Machine;
use super::rules::RULES;
use crate::claim::{Check, Judgement, Limit};
use crate::engine::Engine;
use crate::outcome::{Axis, Outcome, Plot, Table, Tolerance};
use crate::parameters::Parameters;
use crate::recent::Recent;
use crate::station::Station;
use crate::time::Picos;

/// What a strided walk touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Walk {
    /// Bytes the program wanted.
    pub useful_bytes: u64,
    /// Bytes of the lines that held them.
    pub moved_bytes: u64,
    /// TLB misses.
    pub tlb_misses: u64,
}

impl Walk {
    /// Bytes moved for each byte wanted.
    pub fn overfetch(&self) -> f64 {
        self.moved_bytes as f64 / self.useful_bytes as f64
    }
}

/// A strided access pattern.
#[derive(Clone, Copy, Debug)]
pub struct Pattern {
    /// Bytes wanted at each place.
    pub element_bytes: u64,
    /// From one place to the next.
    pub stride_bytes: u64,
    /// Places.
    pub count: u64,
}

/// Walks the pattern once, with every line fetched once and a TLB that drops the page used longest ago.
pub fn walk(pattern: Pattern, line_bytes: u64, tlb_entries: usize) -> Walk {
    const PAGE_BYTES: u64 = 4096;
    let mut tlb = Recent::new(tlb_entries);
    let (mut lines, mut tlb_misses, mut line_after_last) = (0, 0, 0);
    for index in 0..pattern.count {
        let first = index * pattern.stride_bytes;
        let (from, to) = (first / line_bytes, (first + pattern.element_bytes - 1) / line_bytes);
        // Addresses grow, so a line below the last one fetched is in the cache.
        lines += (to + 1).saturating_sub(from.max(line_after_last));
        line_after_last = to + 1;
        tlb_misses += u64::from(!tlb.touch(first / PAGE_BYTES));
    }
    Walk { useful_bytes: pattern.count * pattern.element_bytes, moved_bytes: lines * line_bytes, tlb_misses }
}

/// Lines and pages of strided walks.
pub fn lines(parameters: &Parameters) -> Outcome {
    let mut outcome = Outcome::new();
    let line_bytes = parameters.bytes("host.line");
    let tlb_entries = parameters.count("host.tlb_entries") as usize;
    let columns = [
        ("stride", "B"),
        ("4 B of a line", "x"),
        ("8 B of a line", "x"),
        ("4 B of a 32 B line", "x"),
        ("TLB misses per 1000 elements", "count"),
    ];
    let mut table = Table::new("Bytes moved for each byte wanted", &columns);
    let mut plot = Plot::new("Over-fetch of strided access", Axis::log("stride", "B"), Axis::log("moved / wanted", "x"));
    let mut points = vec![Vec::new(); 3];
    for power in 2..=14 {
        let stride_bytes: u64 = 1 << power;
        let run = |element_bytes: u64, line| walk(Pattern { element_bytes, stride_bytes, count: 1000 }, line, tlb_entries);
        let fine = run(4, line_bytes);
        let values =
            [Some(fine.overfetch()), (stride_bytes >= 8).then(|| run(8, line_bytes).overfetch()), Some(run(4, 32).overfetch())];
        table.row(vec![stride_bytes.into(), values[0].into(), values[1].into(), values[2].into(), fine.tlb_misses.into()]);
        points.iter_mut().zip(values).for_each(|(line, value)| line.extend(value.map(|value| (stride_bytes as f64, value))));
    }
    for (name, line) in [format!("4 B, {line_bytes} B line"), format!("8 B, {line_bytes} B line"), "4 B, 32 B line".to_string()]
        .iter()
        .zip(points)
    {
        plot.line(name.as_str(), line);
    }
    outcome.tables.push(table);
    outcome.plots.push(plot);
    // A full scan takes one field out of every record that is longer than a line.
    let scan =
        |element_bytes| walk(Pattern { element_bytes, stride_bytes: 4096, count: 1000 }, line_bytes, tlb_entries).overfetch();
    let (four, eight) = (scan(4), scan(8));
    outcome.produce_all("d3.overfetch", &[eight, four], Tolerance::Exact);
    outcome.headline("over-fetch of a 4 B scan", "x", four);
    outcome
}

/// D3-C11: a walk of one field a record longer than a line.
pub fn whole_lines(parameters: &Parameters) -> Option<Judgement> {
    let line_bytes = parameters.bytes("host.line");
    let tlb_entries = parameters.count("host.tlb_entries") as usize;
    let scan =
        |element_bytes| walk(Pattern { element_bytes, stride_bytes: 4096, count: 1000 }, line_bytes, tlb_entries).overfetch();
    let (four, eight) = (scan(4), scan(8));
    let near = |printed: f64| Limit::Near { printed, tolerance: RULES.allowed(printed) };
    let checks = vec![
        Check::new("moved over wanted, 4 B", four, "x", near(32.0)),
        Check::new("moved over wanted, 8 B", eight, "x", near(16.0)),
    ];
    Some(Judgement::new(
        format!("{four:.0}x for 4 B, {eight:.0}x for 8 B of a {line_bytes} B line"),
        "Counted over the lines a walk with a large stride touches; the line and the field are those of the claim's own sentence, and the factors are their quotients.",
        checks,
    ))
}

/// The constants of Cell's bus.
struct Cell {
    processors: usize,
    clock_hertz: u64,
    width_bytes: u64,
    command: Picos,
    transfer_bytes_max: u64,
    data_lines: usize,
    dma_latency: Picos,
    memory_latency: Picos,
    queue: usize,
    issue: Picos,
}

enum Event {
    /// A processor may issue its next DMA command.
    Issue(usize),
    /// A bus command of a processor's DMA may start.
    Start { processor: usize, len_bytes: u64 },
    /// A DMA is done.
    Done(usize),
}

impl Cell {
    fn new(parameters: &Parameters) -> Cell {
        let clock_hertz = parameters.hertz("cell.bus_clock");
        Cell {
            processors: parameters.count("cell.spes") as usize,
            clock_hertz,
            width_bytes: parameters.bytes("cell.bus_width"),
            command: Picos::from_ns_f64(parameters.get("cell.command_clocks") * 1e9 / clock_hertz as f64),
            transfer_bytes_max: parameters.bytes("cell.transfer_max"),
            data_lines: (parameters.count("cell.rings") * parameters.count("cell.ring_transfers")) as usize,
            dma_latency: parameters.picos("cell.dma_latency"),
            memory_latency: parameters.picos("cell.memory_latency"),
            queue: parameters.count("cell.queue") as usize,
            issue: parameters.picos("cell.issue"),
        }
    }

    fn data(&self, len_bytes: u64) -> Picos {
        Picos::from_cycles(len_bytes.div_ceil(self.width_bytes), self.clock_hertz)
    }

    /// One access to memory outside of the chip.
    fn access(&self, len_bytes: u64) -> Picos {
        self.issue + self.dma_latency + self.memory_latency + self.data(len_bytes)
    }

    /// The greatest rate the bus accepts: one longest transfer a command.
    fn peak_gigabytes_per_second(&self) -> f64 {
        self.transfer_bytes_max as f64 / self.command.as_ns()
    }

    /// GB/s of all processors transferring pieces of `len_bytes` between their memories at once.
    fn gigabytes_per_second(&self, len_bytes: u64, pieces: u64) -> f64 {
        let mut engine = Engine::new();
        let mut left = vec![pieces; self.processors];
        let mut outstanding = vec![0; self.processors];
        let mut waits = vec![false; self.processors];
        let mut commands = Station::new();
        let mut lines = vec![Station::new(); self.data_lines];
        (0..self.processors).for_each(|processor| engine.schedule(Picos::ZERO, Event::Issue(processor)));
        while let Some((now, event)) = engine.pop() {
            match event {
                Event::Issue(processor) if left[processor] == 0 => {}
                Event::Issue(processor) if outstanding[processor] == self.queue => waits[processor] = true,
                Event::Issue(processor) => {
                    left[processor] -= 1;
                    outstanding[processor] += 1;
                    engine.schedule(now + self.issue + self.dma_latency, Event::Start { processor, len_bytes });
                    engine.schedule(now + self.issue, Event::Issue(processor));
                }
                Event::Start { processor, len_bytes } => {
                    let part = len_bytes.min(self.transfer_bytes_max);
                    let accepted = commands.take(now, self.command).end;
                    let free = (0..lines.len()).min_by_key(|&line| lines[line].free_at()).unwrap_or(0);
                    let moved = lines[free].take(accepted, self.data(part)).end;
                    if len_bytes > part {
                        engine.schedule(accepted, Event::Start { processor, len_bytes: len_bytes - part });
                    } else {
                        engine.schedule(moved, Event::Done(processor));
                    }
                }
                Event::Done(processor) => {
                    outstanding[processor] -= 1;
                    if std::mem::take(&mut waits[processor]) {
                        engine.schedule(now, Event::Issue(processor));
                    }
                }
            }
        }
        (len_bytes * pieces * self.processors as u64) as f64 / engine.now().as_ns()
    }
}

/// Cell's internal bus against the size of a transfer: figure 3.
pub fn cell(parameters: &Parameters) -> Outcome {
    let mut outcome = Outcome::new();
    let cell = Cell::new(parameters);
    let peak = cell.peak_gigabytes_per_second();
    let columns = [("transfer", "B"), ("all processors", "GB/s"), ("of the bus", "%"), ("one access to memory", "ns")];
    let mut table = Table::new("Cell's bus by transfer size", &columns);
    let mut plot = Plot::new("Cell bus bandwidth", Axis::log("transfer", "B"), Axis::log("bandwidth", "GB/s"));
    let mut points = Vec::new();
    for power in 0..=14 {
        let len_bytes: u64 = 1 << power;
        let rate = cell.gigabytes_per_second(len_bytes, PIECES);
        points.push((len_bytes as f64, rate));
        table.row(vec![len_bytes.into(), rate.into(), (100.0 * rate / peak).into(), cell.access(len_bytes).as_ns().into()]);
    }
    plot.line("all processors", points);
    outcome.tables.push(table);
    outcome.plots.push(plot.figure("D3 figure 3"));
    outcome.headline("bus share of 512 B transfers", "%", 100.0 * cell.gigabytes_per_second(512, PIECES) / peak);
    outcome
}

/// Enough that the start of the first transfer does not count.
const PIECES: u64 = 400;

/// D3-C12.
pub fn granule(parameters: &Parameters) -> Option<Judgement> {
    let cell = Cell::new(parameters);
    let ratio = cell.access(128).as_ns() / cell.access(1).as_ns();
    let [long, short] = [128, 1].map(|len_bytes| (cell.command + cell.data(len_bytes)).as_ns());
    let check = |ratio| vec![Check::new("128 B over 1 B", ratio, "x", Limit::Below(RULES.word("about the same")))];
    Some(
        Judgement::new(
            format!("128 B cost {ratio:.3} times what 1 B costs; on the bus alone {:.1} times", long / short),
            "A single access is latency (issue, DMA, memory), the data of 128 B are eight bus clocks of it. The paper's reason is the network on the chip, which moves packets of 128 B; this model's bus moves what is asked for, so the memory's latency makes the two alike.",
            check(ratio),
        )
        .or("an access to memory", "a transfer on the chip's bus alone", check(long / short)),
    )
}

/// D3-C13. The board must also yield the elements: random 8 B out of all its banks.
pub fn gathered(parameters: &Parameters) -> Option<Judgement> {
    let cell = Cell::new(parameters);
    let peak = cell.peak_gigabytes_per_second();
    let [four, eight, gathered] = [4, 8, 512].map(|len_bytes| 100.0 * cell.gigabytes_per_second(len_bytes, PIECES) / peak);
    let gather = super::vector::random_gather(&Machine::new(&parameters.with("board.kind", 1.0)).memory, 8, 1);
    Some(Judgement::new(
        format!(
            "4 B use {four:.1} %, 8 B {eight:.1} %, 512 B {gathered:.0} % of the bus; the board gathers 8 B elements at {gather:.0} MB/s"
        ),
        "Each transfer costs its processor an issue and the bus a command whatever its length; 512 B hide both.",
        vec![
            Check::new("512 B, of the bus", gathered, "%", Limit::Above(RULES.word("efficient"))),
            Check::new("4 B, of the bus", four, "%", Limit::Below(RULES.word("inefficient"))),
            Check::new("8 B, of the bus", eight, "%", Limit::Below(RULES.word("inefficient"))),
        ],
    ))
}

#[cfg(test)]
mod tests {
    use super::super::parameters;
    use super::*;

    #[test]
    fn a_dense_walk_moves_what_it_wants() {
        let dense = walk(Pattern { element_bytes: 4, stride_bytes: 4, count: 1024 }, 128, 64);
        assert_eq!((dense.moved_bytes, dense.overfetch()), (4096, 1.0));
        assert_eq!(dense.tlb_misses, 1);
    }

    #[test]
    fn elements_across_a_line_border_move_both_lines() {
        let split = walk(Pattern { element_bytes: 8, stride_bytes: 252, count: 2 }, 128, 64);
        // The second element covers bytes 252 to 259, in lines 1 and 2.
        assert_eq!(split.moved_bytes, 3 * 128);
    }

    #[test]
    fn overfetch_is_as_printed() {
        assert_eq!(lines(&parameters()).disagreements(), Vec::<String>::new());
    }

    #[test]
    fn long_transfers_fill_the_bus_and_no_more() {
        let cell = Cell::new(&parameters());
        let peak = cell.peak_gigabytes_per_second();
        let long = cell.gigabytes_per_second(16_384, 100);
        assert!(long > 0.9 * peak && long <= peak * 1.001, "{long} of {peak}");
        assert!(cell.gigabytes_per_second(1, 100) < 0.01 * peak);
    }
}
