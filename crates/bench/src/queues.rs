//! Many queues of which few are in use. One thread that waits for any reads 16 active ones among 16 to a million. The rate must not depend
//! on how many there are.
//!
// FEATURE: VQ-F14

use crate::Options;
use crate::nodes::Nodes;
use crate::report::{Better, Report, Row};
use crate::turns::{Contestant, Figures, Outcome, take_turns};
use anyhow::{Result, anyhow, ensure};
use hanare::{CreateOptions, Overflow, QueueForm, Unit};
use std::time::Instant;

/// The bench's name.
pub const NAME: &str = "queues";

/// Numbers of queues; the first is what the others stand beside.
const COUNTS: [u64; 5] = [16, 64, 4096, 65_536, 1_000_000];
const COUNTS_QUICK: [u64; 3] = [16, 64, 4096];
const ACTIVE: u64 = 16;
const BLOCK_LEN: usize = 64;
const DEPTH: u32 = 4;
/// Blocks of a turn.
const BLOCK_COUNT: u64 = 400_000;
const BLOCK_COUNT_QUICK: u64 = 8_000;
/// Flat within a fifth.
const GOAL: f64 = 0.8;

/// Runs it.
pub fn run(options: &Options, progress: &mut dyn FnMut(&str)) -> Result<Report> {
    let (counts, blocks) = if options.quick { (&COUNTS_QUICK[..], BLOCK_COUNT_QUICK) } else { (&COUNTS[..], BLOCK_COUNT) };
    let form = QueueForm { unit: Unit::Blocks { len: BLOCK_LEN as u32 }, depth: DEPTH, ports: 1, overflow: Overflow::Wait };
    let bytes = counts.iter().map(|count| form.array_len(*count)).sum::<hanare::Result<u64>>()?;
    progress("starting a node");
    let nodes = Nodes::start(options, 1, bytes + (64 << 20))?;
    let pool = nodes.attach(0)?;
    let mut report = Report::new(NAME);
    for count in counts {
        let begun = Instant::now();
        pool.create_queues(&name(*count), *count, &form, &CreateOptions::default())?;
        if *count == counts[counts.len() - 1] {
            let ms = begun.elapsed().as_secs_f64() * 1e3;
            report.rows.push(Row::alone(format!("{count} queues made"), ms, "ms", Better::Lower));
        }
    }
    let outcomes = take_turns(options.rounds(), vec![Contestant::ours("hanare", || ours(&nodes, counts, blocks))], progress)?;
    let figure = |ours: &Outcome, count: u64| ours.median(&name(count)).map_err(|reason| anyhow!("{count}: {reason}"));
    let base = figure(&outcomes[0], counts[0])?;
    for count in &counts[1..] {
        let row = Row::alone(
            format!("{ACTIVE} active queues of {count}, one reader"),
            figure(&outcomes[0], *count)?,
            "M blocks/s",
            Better::Higher,
        );
        report.rows.push(row.beside(format!("own baseline: {} queues", counts[0]), base, Some(GOAL)));
    }
    Ok(report)
}

fn name(count: u64) -> String {
    format!("bench-{count}")
}

fn ours(nodes: &Nodes, counts: &[u64], blocks: u64) -> Result<Figures> {
    counts.iter().map(|count| Ok((name(*count), stream(nodes, *count, blocks)?))).collect()
}

/// Measures a thread that writes to the active queues in turns, and another that reads whichever has something.
fn stream(nodes: &Nodes, count: u64, blocks: u64) -> Result<f64> {
    let pool = nodes.attach(0)?;
    let mut set = pool.open_queues(&name(count), 0)?.set()?;
    std::thread::scope(|scope| {
        let writing = scope.spawn(move || -> Result<()> {
            let queues = nodes.attach(0)?.open_queues(&name(count), 0)?;
            let open = |k: u64| queues.queue(k * (count / ACTIVE))?.writer();
            let mut writers = (0..ACTIVE).map(open).collect::<hanare::Result<Vec<_>>>()?;
            for number in 0..blocks {
                writers[(number % ACTIVE) as usize].send(&[number as u8; BLOCK_LEN])?;
            }
            Ok(())
        });
        let (mut sum, mut bytes) = (0u64, [0; BLOCK_LEN]);
        let mut begun = Instant::now();
        for number in 0..blocks {
            let unread = set.see(None)?;
            set.read(&unread, 0, &mut bytes);
            set.free(&unread)?;
            sum += u64::from(bytes[BLOCK_LEN - 1]);
            if number == 0 {
                begun = Instant::now();
            }
        }
        let rate = (blocks - 1) as f64 / begun.elapsed().as_secs_f64() / 1e6;
        writing.join().map_err(|_| anyhow!("the writer panicked"))??;
        ensure!(sum == (0..blocks).map(|number| number % 256).sum::<u64>(), "the blocks that came are not those that were sent");
        Ok(rate)
    })
}
