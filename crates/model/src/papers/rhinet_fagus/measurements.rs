//! The paper's micro-benchmarks: primitives, invalidation and update, barrier throughput.
use super::coherence::{self, Extremes};
use super::primitives::{self, LONG, PageMode, Primitive, bandwidth, fitted, transfer};
use super::transport::Transport;
use super::{barrier, claims, lock_rules};
use crate::facts::facts;
use crate::outcome::{Axis, Cell, Outcome, Plot, Table, Tolerance};
use crate::parameters::Parameters;
use crate::trace::Trace;

/// Latency and bandwidth of the primitives: figure 2.
// FEATURE: RF-F20
pub fn primitives(parameters: &Parameters) -> Outcome {
    let mut outcome = Outcome::new();
    let mut columns = vec![("bytes", "B")];
    columns.extend(Primitive::ALL.iter().map(|primitive| (primitive.name(), "us")));
    let mut latencies = Table::new("Time of one transfer", &columns);
    let mut rates = Table::new(
        "Bandwidth",
        &columns.iter().map(|column| (column.0, if column.0 == "bytes" { "B" } else { "MB/s" })).collect::<Vec<_>>(),
    );
    let mut rate_plot = Plot::new("Bandwidth of the primitives", Axis::log("bytes", "B"), Axis::new("bandwidth", "MB/s"));
    let mut latency_plot = Plot::new("Latency of the primitives", Axis::log("bytes", "B"), Axis::log("time", "us"));
    let sizes: Vec<u64> = (2..=19).map(|power| 1 << power).collect();
    let times: Vec<Vec<Option<f64>>> = sizes
        .iter()
        .map(|&len| {
            let fits = |primitive: &Primitive| !primitive.is_paged() || len >= parameters.bytes("npc.line");
            Primitive::ALL
                .iter()
                .map(|primitive| fits(primitive).then(|| transfer(parameters, *primitive, len, None).as_us()))
                .collect()
        })
        .collect();
    for (&len, row) in sizes.iter().zip(&times) {
        let cells = |value: &dyn Fn(f64) -> f64| -> Vec<Cell> {
            std::iter::once(len.into()).chain(row.iter().map(|time| time.map(value).into())).collect()
        };
        latencies.row(cells(&|us| us));
        rates.row(cells(&|us| len as f64 / us));
    }
    for (index, primitive) in Primitive::ALL.iter().enumerate() {
        let points = |value: &dyn Fn(f64, f64) -> f64| -> Vec<(f64, f64)> {
            let pairs = sizes.iter().zip(&times).filter_map(|(&len, row)| Some((len as f64, row[index]?)));
            pairs.map(|(len, us)| (len, value(len, us))).collect()
        };
        rate_plot.line(primitive.name(), points(&|len, us| len / us));
        latency_plot.line(primitive.name(), points(&|_, us| us));
    }
    rate_plot.printed_at("paper: Push", &[(LONG as f64, "rf.push_bw")]);
    rate_plot.printed_at("paper: Pull", &[(LONG as f64, "rf.pull_bw")]);
    outcome.tables.extend([rates, latencies, fits(parameters)]);
    outcome.plots.extend([rate_plot.figure("RF figure 2"), latency_plot.figure("RF figure 2")]);
    let gain = claims::cache_gain(parameters);
    outcome.produce("rf.push_bw", bandwidth(parameters, Primitive::Push), Tolerance::Relative(0.01));
    outcome.produce("rf.pull_bw", bandwidth(parameters, Primitive::Pull), Tolerance::Relative(0.05));
    outcome.produce("rf.cache_gain", gain, Tolerance::Absolute(1.0));
    outcome.produce("rf.primitives", 4.0, Tolerance::Exact);
    let modes = Primitive::ALL.iter().filter(|primitive| primitive.is_paged()).count();
    outcome.produce("rf.pushpage.modes", modes as f64, Tolerance::Exact);
    outcome.headline("Push", "MB/s", bandwidth(parameters, Primitive::Push));
    outcome.headline("Pull", "MB/s", bandwidth(parameters, Primitive::Pull));
    outcome.headline("Send from Cache over Normal", "%", gain);
    outcome.trace = Some(chart(parameters));
    outcome
}

/// Two pages by each primitive.
fn chart(parameters: &Parameters) -> Trace {
    let mut trace = Trace::new();
    for primitive in Primitive::ALL {
        transfer(parameters, primitive, 8192, Some(&mut trace));
    }
    trace
}

fn fits(parameters: &Parameters) -> Table {
    let columns = [
        ("DMA set-up fitted to", ""),
        ("set-up", "us"),
        ("Push", "MB/s"),
        ("Pull", "MB/s"),
        ("Send from Cache over Normal", "%"),
    ];
    let mut table = Table::new("One constant is fitted; what each fit predicts", &columns);
    let rows = [
        ("nothing (as set)", None),
        ("Push, 48 MB/s", Some((Primitive::Push, "rf.push_bw"))),
        ("Pull, 45 MB/s", Some((Primitive::Pull, "rf.pull_bw"))),
    ];
    for (name, fit) in rows {
        let chosen =
            fit.map_or_else(|| parameters.clone(), |(primitive, fact)| fitted(parameters, primitive, facts().number(fact)));
        table.row(vec![
            name.into(),
            chosen.get("dma.setup").into(),
            bandwidth(&chosen, Primitive::Push).into(),
            bandwidth(&chosen, Primitive::Pull).into(),
            claims::cache_gain(&chosen).into(),
        ]);
    }
    table
}

/// Invalidation on a write and update on a read, 2 to 4 nodes: figures 3 and 4.
pub fn coherence(parameters: &Parameters) -> Outcome {
    let mut outcome = Outcome::new();
    let columns = [
        ("network", ""),
        ("nodes", "count"),
        ("invalidation, Min", "us"),
        ("invalidation, Max", "us"),
        ("update, Min", "us"),
        ("update, Max", "us"),
    ];
    let mut table = Table::new("One server writes a shared variable, its clients read it", &columns);
    let mut plots =
        ["Invalidation time", "Update time"].map(|title| Plot::new(title, Axis::new("nodes", "count"), Axis::new("time", "us")));
    let range = facts().fact("rf.coherence.nodes").input().numbers();
    let counts: Vec<usize> = (range[0] as usize..=range[1] as usize).collect();
    let mut trace = Trace::new();
    let mut runs = Vec::new();
    for transport in Transport::both(parameters) {
        let mut lines = [Vec::new(), Vec::new(), Vec::new(), Vec::new()];
        for &nodes in &counts {
            let invalidation = coherence::invalidate(parameters, &transport, nodes);
            let chart = (nodes == counts[counts.len() - 1]).then_some(&mut trace);
            let update = coherence::update(parameters, &transport, nodes, chart);
            table.row(row(&transport, nodes, invalidation, update));
            let values = [invalidation.least, invalidation.greatest, update.least, update.greatest];
            lines.iter_mut().zip(values).for_each(|(line, value)| line.push((nodes as f64, value.as_us())));
            runs.push((nodes, invalidation, update));
        }
        for (index, line) in lines.into_iter().enumerate() {
            plots[index / 2].line(format!("{}, {}", transport.name(), ["Min", "Max"][index % 2]), line);
        }
    }
    outcome.tables.push(table);
    let [invalidation, update] = plots;
    outcome.plots.extend([invalidation.figure("RF figure 3"), update.figure("RF figure 4")]);
    outcome.produce_all("rf.coherence.nodes", &[counts[0] as f64, counts[counts.len() - 1] as f64], Tolerance::Exact);
    outcome.note("The text on figure 4 speaks of invalidation time while the figure is the update time; read as update.");
    outcome.headline("update of the slowest client, 4 nodes, RHiNET", "us", runs[counts.len() - 1].2.greatest.as_us());
    outcome.trace = Some(trace);
    outcome
}

fn row(transport: &Transport, nodes: usize, invalidation: Extremes, update: Extremes) -> Vec<Cell> {
    vec![
        transport.name().into(),
        (nodes as u64).into(),
        invalidation.least.as_us().into(),
        invalidation.greatest.as_us().into(),
        update.least.as_us().into(),
        update.greatest.as_us().into(),
    ]
}

/// The variable of figures 3 and 4 bound to a lock of the product, beside the paper's cache control.
pub fn under_each_rule(parameters: &Parameters) -> Outcome {
    let columns = [
        ("network", ""),
        ("nodes", "count"),
        ("paper: write", "us"),
        ("read, Max", "us"),
        ("messages", "count"),
        ("product: write by the home", "us"),
        ("by a client", "us"),
        ("read, Min", "us"),
        ("read, Max", "us"),
        ("messages", "count"),
        ("bytes of the variable", "B"),
    ];
    let mut table = Table::new("A shared variable is written, then all clients read it, under each rule", &columns);
    let mut outcome = Outcome::new();
    for transport in Transport::both(parameters) {
        for nodes in 2..=8_usize {
            let invalidation = coherence::invalidate(parameters, &transport, nodes);
            let update = coherence::update(parameters, &transport, nodes, None);
            let homes = lock_rules::write_and_read(parameters, &transport, nodes, 0);
            let clients = lock_rules::write_and_read(parameters, &transport, nodes, 1);
            table.row(vec![
                transport.name().into(),
                (nodes as u64).into(),
                invalidation.greatest.as_us().into(),
                update.greatest.as_us().into(),
                // An invalidation and its answer, a request and the pages.
                (4 * (nodes as u64 - 1)).into(),
                homes.write.as_us().into(),
                clients.write.as_us().into(),
                homes.reads.least.as_us().into(),
                homes.reads.greatest.as_us().into(),
                (homes.messages[0] + homes.messages[1]).into(),
                homes.bytes.into(),
            ]);
        }
    }
    outcome.tables.push(table);
    outcome.note("Locks, versions and what a grant brings are decided by the product's own code. The paper's interface, links and host costs give each message its time.");
    outcome.note("The two rules promise different things. The paper's copies are current once a client has read; the product's are current for whoever takes the lock. The paper moves the pages of the region, the product the bytes that changed.");
    outcome
}

/// Throughput of a barrier that forces a transfer: figure 5.
pub fn barrier_throughput(parameters: &Parameters) -> Outcome {
    let mut outcome = Outcome::new();
    let range = facts().fact("rf.barrier.sizes").input().numbers();
    let step = facts().number("rf.barrier.step") as usize;
    let sizes: Vec<u64> = (range[0] as u64..=range[1] as u64).step_by(step).map(|kilobytes| kilobytes * 1024).collect();
    let [rhinet, ethernet] = Transport::both(parameters);
    let runs = [
        ("Fagus/RHiNET", barrier::sweep(parameters, &rhinet, &sizes, primitives::PageMode::PageCaching)),
        ("Fagus/RHiNET, every page in the cache", barrier::sweep(parameters, &rhinet, &sizes, PageMode::SendFromCache)),
        ("Fagus/Ethernet", barrier::sweep(parameters, &ethernet, &sizes, PageMode::Normal)),
    ];
    let columns = [("bytes", "KB"), (runs[0].0, "MB/s"), (runs[1].0, "MB/s"), (runs[2].0, "MB/s")];
    let mut table = Table::new("Bytes transferred by a barrier / time of the barrier, 2 nodes", &columns);
    let mut plot = Plot::new("Barrier throughput", Axis::new("bytes", "KB"), Axis::new("throughput", "MB/s"));
    for (index, &size) in sizes.iter().enumerate().filter(|(_, size)| (**size / 1024).is_power_of_two()) {
        let mut cells: Vec<Cell> = vec![(size / 1024).into()];
        cells.extend(runs.iter().map(|run| Cell::from(run.1[index])));
        table.row(cells);
    }
    for (name, run) in &runs {
        plot.line(*name, sizes.iter().zip(run).map(|(size, rate)| (*size as f64 / 1024.0, *rate)));
    }
    let last = sizes[sizes.len() - 1] as f64 / 1024.0;
    plot.printed_at("paper: RHiNET (suspect)", &[(last, "rf.barrier.rhinet")]);
    plot.printed_at("paper: Ethernet", &[(last, "rf.barrier.ethernet")]);
    outcome.tables.push(table);
    outcome.plots.push(plot.figure("RF figure 5"));
    let best = runs.each_ref().map(|run| run.1.iter().copied().fold(0.0, f64::max));
    outcome.produce("rf.barrier.rhinet", best[0], Tolerance::Relative(0.1));
    outcome.produce("rf.barrier.ethernet", best[2], Tolerance::Relative(0.05));
    outcome.produce_all(
        "rf.barrier.sizes",
        &[(sizes[0] / 1024) as f64, (sizes[sizes.len() - 1] / 1024) as f64],
        Tolerance::Exact,
    );
    outcome.headline("barrier throughput, RHiNET", "MB/s", best[0]);
    outcome.headline("barrier throughput, Ethernet", "MB/s", best[2]);
    outcome.note("The printed 51 MB/s exceed the printed 48 MB/s of a plain remote write; both are shown, 51 is not asserted.");
    outcome.note(format!("A page is the unit of transfer, so sizes between pages carry a whole page more; bandwidths of primitives are read at {} KB.", LONG / 1024));
    outcome
}
