//! Elements of 8 bytes at a stride, on one host and between two over TCP. Beside them are a fetch of the whole range, MPI's vector
//! datatype, and a loop over local memory.
//!
// FEATURE: D3-F11

use crate::Options;
use crate::compare::{baseline, bytes, compare};
use crate::nodes::Nodes;
use crate::peers::local::local_loop;
use crate::peers::mpi::{Link, Mpi};
use crate::peers::program::Compiled;
use crate::report::{Report, Row};
use crate::table;
use crate::turns::{Contestant, Figures, Outcome, take_turns, time_step};
use anyhow::Result;
use hanare::{Placement, Region, Strided};

/// The bench's name.
pub const NAME: &str = "strided";

const ELEMENT_LEN: u64 = 8;

/// Bytes from the first element's to behind the last one's stride.
const RANGES: [u64; 2] = [1 << 20, 64 << 20];
const RANGES_QUICK: [u64; 2] = [1 << 20, 4 << 20];

const STRIDES: [u64; 5] = [16, 64, STRIDE_OF_GOALS, 512, 4096];

/// The stride at which the range's goals are set.
const STRIDE_OF_GOALS: u64 = 128;

/// Memory that each node lends beyond the largest range.
const MEMORY_TO_SPARE: u64 = 128 << 20;

/// A range and a stride.
type Case = (u64, u64);

/// Runs it.
pub fn run(options: &Options, progress: &mut dyn FnMut(&str)) -> Result<Report> {
    let ranges = if options.quick { RANGES_QUICK } else { RANGES };
    let cases: Vec<Case> = ranges.iter().flat_map(|range| STRIDES.map(|stride| (*range, stride))).collect();
    let words: Vec<String> = cases.iter().map(|(range, stride)| format!("{range}/{stride}")).collect();
    progress("starting nodes");
    let nodes = Nodes::start(options, options.nodes_or(2), ranges[1] + MEMORY_TO_SPARE)?;
    let pool = nodes.attach(0)?;
    let near = table::create(&pool, "bench-near", ranges[1], Placement::Local)?;
    let far = table::create(&pool, "bench-far", ranges[1], Placement::Node(table::far(&pool)?[0]))?;
    let compiled = Compiled::new(options)?;
    let mut contestants = vec![
        Contestant::ours("hanare", || ours(options, &near, &far, &cases)),
        local_loop(&compiled, "strided", nodes.pages()?, &words),
    ];
    for link in [Link::Local, Link::Tcp] {
        contestants.extend(Mpi::ALL.map(|mpi| mpi.contestant(&compiled, "mpi_strided", link, &words)));
    }
    let outcomes = take_turns(options.rounds(), contestants, progress)?;
    let [ours, tuned, near_mpi @ .., open, mpich] = &outcomes[..] else { unreachable!("there are six contestants") };
    let mut report = Report::new(NAME);
    for case in &cases {
        report.rows.extend(near_rows(*case, ours, tuned, near_mpi)?);
        report.rows.extend(far_rows(*case, ours, [open, mpich])?);
    }
    Ok(report)
}

fn name((range, stride): Case, place: &str) -> String {
    format!("get {} of each {} of {}, {place}", bytes(ELEMENT_LEN), bytes(stride), bytes(range))
}

fn near_rows(case: Case, ours: &Outcome, tuned: &Outcome, mpi: &[Outcome]) -> Result<Vec<Row>> {
    let (name, (range, stride)) = (name(case, "same host"), case);
    let (own_key, key) = (format!("near_{range}_{stride}"), format!("get_{range}_{stride}"));
    let peers = mpi.iter().map(|peer| (peer, None));
    let row = |(peer, goal)| compare(name.clone(), ours, &own_key, peer, &key, goal);
    [(tuned, Some(0.9))].into_iter().chain(peers).map(row).collect()
}

fn far_rows(case: Case, ours: &Outcome, mpi: [&Outcome; 2]) -> Result<Vec<Row>> {
    let (name, (range, stride)) = (name(case, "2 nodes, tcp"), case);
    let (own_key, key) = (format!("far_{range}_{stride}"), format!("get_{range}_{stride}"));
    let has_goals = stride == STRIDE_OF_GOALS;
    let whole_goal = RANGES.iter().zip([3.0, 5.0]).find(|(with_goal, _)| **with_goal == range).map(|(_, goal)| goal);
    let whole = baseline(ours, "get of the whole range");
    let mut rows =
        vec![compare(name.clone(), ours, &own_key, &whole, &format!("whole_{range}"), whole_goal.filter(|_| has_goals))?];
    for peer in mpi {
        rows.push(compare(name.clone(), ours, &own_key, peer, &key, has_goals.then_some(1.0))?);
    }
    Ok(rows)
}

fn ours(options: &Options, near: &Region, far: &Region, cases: &[Case]) -> Result<Figures> {
    let mut figures = Figures::new();
    for (range, stride) in cases {
        let shape = Strided { offset: 0, block: ELEMENT_LEN, count: range / stride, stride: *stride };
        let mut buffer = vec![0; (shape.count * ELEMENT_LEN) as usize];
        for (place, region) in [("near", near), ("far", far)] {
            buffer.fill(0);
            let ns = time_step(options.budget(), || region.get_strided(shape, &mut buffer))?;
            table::check(&buffer, (0..shape.count).map(|k| k * stride / ELEMENT_LEN))?;
            figures.insert(format!("{place}_{range}_{stride}"), ns);
        }
    }
    for (range, _) in cases.iter().filter(|(_, stride)| *stride == STRIDE_OF_GOALS) {
        let mut buffer = vec![0; *range as usize];
        figures.insert(format!("whole_{range}"), time_step(options.budget(), || far.get(0, &mut buffer))?);
        table::check(&buffer, 0..range / ELEMENT_LEN)?;
    }
    Ok(figures)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goals_are_set_where_they_were_asked_for() {
        let figures = [("far_67108864_128", 1.0), ("whole_67108864", 6.0), ("far_67108864_16", 1.0), ("get_67108864_128", 2.0)];
        let figures: Figures = figures.into_iter().map(|(key, ns)| (key.to_owned(), ns)).collect();
        let all = Outcome { name: "x".into(), medians: Ok(figures) };
        let rows = far_rows((64 << 20, 128), &all, [&all, &all]).unwrap();
        let goals: Vec<_> = rows.iter().map(|row| row.beside.as_ref().unwrap().goal).collect();
        assert_eq!(goals, [Some(5.0), Some(1.0), Some(1.0)]);
        let rows = far_rows((64 << 20, 16), &all, [&all, &all]).unwrap();
        assert!(rows.iter().all(|row| row.beside.as_ref().unwrap().goal.is_none()));
        assert_eq!(rows[0].case, "get 8 B of each 16 B of 64 MiB, 2 nodes, tcp");
    }
}
