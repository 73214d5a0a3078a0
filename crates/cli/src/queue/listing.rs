//! Queues as listings show them.

use crate::print::{self, Column};
use crate::queue_form::{as_value, overflow, unit};
use crate::size;
use anyhow::Result;
use hanare::{Pool, Queue, QueueStat, Queues, Trust};
use serde_json::{Value, json};

/// A handle that describes queues of others, too: what they say of themselves is shown, and no more.
pub fn whoever_made(pool: &Pool) -> Pool {
    pool.trusting(Trust::own(pool).and_anyone())
}

/// Prints a line for each region that begins with queues, of those that this user may read.
pub fn list(pool: &Pool, as_json: bool) -> Result<()> {
    let pool = whoever_made(pool);
    let found = pool.list()?.into_iter().filter_map(|region| Some((pool.open_queues(&region.name, 0).ok()?, region.name)));
    let found: Vec<_> = found.collect();
    if as_json {
        let value = |(queues, name): &(Queues, String)| {
            let mut value = as_value(queues);
            value["name"] = name.as_str().into();
            value
        };
        return print::json(&Value::Array(found.iter().map(value).collect()));
    }
    use Column::{Number, Text};
    let columns =
        [Text("NAME"), Number("QUEUES"), Text("UNIT"), Number("BYTES"), Number("DEPTH"), Number("PORTS"), Text("OVERFLOW")];
    let rows = found.iter().map(|(queues, name)| {
        let (form, (kind, len)) = (queues.form(), unit(queues.form()));
        let numbers = [form.depth, form.ports].map(|number| number.to_string());
        let [depth, ports] = numbers;
        let bytes = size::show(len.into());
        vec![name.clone(), queues.count().to_string(), kind.to_owned(), bytes, depth, ports, overflow(form).to_owned()]
    });
    print::table(&columns, rows.collect());
    Ok(())
}

/// Prints all about one queue.
pub fn describe(queue: &Queue, as_json: bool) -> Result<()> {
    let (stat, form) = (queue.stat()?, *queue.form());
    let (kind, len) = unit(&form);
    if as_json {
        let lane = |lane: &hanare::LaneStat| {
            json!({
                "writer": lane.has_writer, "bytes": lane.bytes, "bytes_ever": lane.bytes_ever, "spilled": lane.spilled,
            })
        };
        return print::json(&json!({
            "unit": kind, "bytes": len, "depth": form.depth, "ports": form.ports, "overflow": overflow(&form),
            "reader": stat.has_reader, "blocks": stat.blocks(&form), "lanes": stat.lanes.iter().map(lane).collect::<Vec<_>>(),
        }));
    }
    print::line(&format!(
        "{kind}s    {} each at most, {} a lane, overflow: {}",
        size::show(len.into()),
        form.depth,
        overflow(&form)
    ));
    print::line(&format!("reader    {}", if stat.has_reader { "yes" } else { "none" }));
    print_lanes(&stat);
    Ok(())
}

fn print_lanes(stat: &QueueStat) {
    use Column::{Number, Text};
    let columns = [Number("LANE"), Text("WRITER"), Number("WAITING"), Number("SPILLED"), Number("EVER")];
    let rows = stat.lanes.iter().enumerate().map(|(number, lane)| {
        let writer = if lane.has_writer { "yes" } else { "none" };
        let [waiting, ever] = [lane.bytes, lane.bytes_ever].map(size::show);
        vec![number.to_string(), writer.to_owned(), waiting, lane.spilled.to_string(), ever]
    });
    print::table(&columns, rows.collect());
}
