//! The pool's status as Prometheus metrics: one page of text over HTTP.

mod faces;
mod http;
pub mod request;

use anyhow::{Context, Result, bail, ensure};
use hanare::Pool;
use hanare_protocol::wire::control::{BUCKETS_US, CommandCount, CommandOrigin, NodeCounts, PageStat, PoolStatus};
use http::Terms;
use request::Page;
use std::fmt::{Display, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

/// Time for a scraper to send its request, however many pieces it comes in; and as long to take the reply.
const REQUEST_MAX: Duration = Duration::from_secs(2);

/// Most scrapers at once; who comes beyond takes the place of one that says nothing.
const SCRAPER_COUNT_MAX: usize = 512;

/// Shortest token: 64 bits in hexadecimal digits.
const TOKEN_LEN_MIN: usize = 16;

/// Answers scrapers at `address` with the status that the node at `socket` gives. Beyond this host they bring the token that `token` holds,
/// as `Authorization: Bearer`.
pub fn serve(address: &str, token: Option<&Path>, socket: &str) -> Result<()> {
    let listener = TcpListener::bind(address).with_context(|| format!("cannot listen for scrapers at {address}"))?;
    let token = token.map(read_token).transpose()?;
    if token.is_none() && !listener.local_addr()?.ip().is_loopback() {
        bail!("--prometheus {address} is reached from other hosts: give --prometheus-token FILE, a secret that scrapers bring");
    }
    let (socket, names) = (socket.to_owned(), token.is_some());
    let terms = Terms { token, place_count: SCRAPER_COUNT_MAX, patience: REQUEST_MAX };
    http::start(listener, terms, move |page| match page {
        Page::Metrics => told(metrics(&socket, names)),
        Page::Health => told(Pool::attach_as(&socket, None, None).map(|_| "ok\n".to_owned())),
        Page::Ready => told(is_member(&socket).map(|()| "ok\n".to_owned())),
    })
}

fn read_token(path: &Path) -> Result<String> {
    let named = || format!("--prometheus-token {}", path.display());
    let mode = std::fs::metadata(path).with_context(named)?.permissions().mode();
    ensure!(mode & 0o077 == 0, "{}: others may read it; make it mode 0600", named());
    let token = std::fs::read_to_string(path).with_context(named)?.trim().to_owned();
    ensure!(token.len() >= TOKEN_LEN_MIN, "{}: a token has at least {TOKEN_LEN_MIN} characters", named());
    Ok(token)
}

fn told(text: hanare::Result<String>) -> (&'static str, String) {
    match text {
        Ok(text) => ("200 OK", text),
        Err(error) => ("503 Service Unavailable", format!("{error}\n")),
    }
}

fn is_member(socket: &str) -> hanare::Result<()> {
    let pool = Pool::attach_as(socket, None, None)?;
    let own = pool.node();
    match pool.status()?.nodes.iter().any(|node| node.node == own && node.alive) {
        true => Ok(()),
        false => Err(hanare::Error::NodeLost { node: own, reason: "the coordinator takes it for lost".to_owned() }),
    }
}

/// All metrics: of this node always, of the pool where its coordinator answers. Names of regions are for who brought a token: every user
/// of the host reaches a loopback address.
fn metrics(socket: &str, names: bool) -> hanare::Result<String> {
    let pool = Pool::attach_as(socket, None, None)?;
    let regions: Vec<PageStat> = pool.page_stats()?.into_iter().filter(|stat| names || !is_of_tenant(stat)).collect();
    let counts = pool.node_counts()?;
    let by_face = crate::faces::of_node(pool.face_counts(&pool.own_status()?.own)?, &counts);
    let own = commands(&counts) + &faces::page(&by_face) + &shared(&regions, names);
    let status = pool.status();
    let mut text = own;
    metric(
        &mut text,
        MetricKind::Gauge,
        "hanare_coordinator_up",
        "Whether the coordinator answers.",
        [(String::new(), u64::from(status.is_ok()))],
    );
    Ok(text + &status.map_or_else(|_| String::new(), |status| page(&status)))
}

/// Counts of this node's commands.
fn commands(counts: &NodeCounts) -> String {
    let mut text = String::new();
    let of_kinds = |value: fn(&CommandCount) -> u64| {
        counts.commands.iter().map(move |command| (format!("{{{}}}", labels(command)), value(command)))
    };
    metric(
        &mut text,
        MetricKind::Counter,
        "hanare_commands_total",
        "Commands that this node did.",
        of_kinds(|command| command.count),
    );
    metric(
        &mut text,
        MetricKind::Counter,
        "hanare_command_bytes_total",
        "Bytes of regions that they touched.",
        of_kinds(|command| command.bytes),
    );
    let refused = counts.refused.iter().map(|(error, count)| (format!("{{error=\"{error}\"}}"), *count));
    metric(&mut text, MetricKind::Counter, "hanare_commands_refused_total", "Commands that this node refused.", refused);
    let name = "hanare_command_seconds";
    let _ = writeln!(text, "# HELP {name} Time from a command's admission to the end of its answer.\n# TYPE {name} histogram");
    for command in &counts.commands {
        let CommandCount { count, micros, buckets, .. } = command;
        let (labels, mut sum) = (labels(command), 0);
        for (most, bucket) in BUCKETS_US.iter().zip(buckets) {
            sum += bucket;
            let _ = writeln!(text, "{name}_bucket{{{labels},le=\"{}\"}} {sum}", *most as f64 / 1e6);
        }
        let _ = writeln!(text, "{name}_bucket{{{labels},le=\"+Inf\"}} {count}");
        let _ = writeln!(text, "{name}_sum{{{labels}}} {}\n{name}_count{{{labels}}} {count}", *micros as f64 / 1e6);
    }
    text
}

/// Labels that tell a command's metrics apart.
fn labels(command: &CommandCount) -> String {
    let from = match command.from {
        CommandOrigin::OwnHost => "own_host",
        CommandOrigin::OtherHost => "other_host",
    };
    format!("command=\"{}\",from=\"{from}\"", command.kind)
}

fn page(status: &PoolStatus) -> String {
    let mut text = String::new();
    metric(&mut text, MetricKind::Gauge, "hanare_regions", "Regions of the pool.", [(String::new(), status.regions)]);
    let of_nodes = |value: fn(&hanare_protocol::wire::control::NodeStatus) -> u64| {
        status
            .nodes
            .iter()
            .map(move |node| (format!("{{node=\"{}\",name=\"{}\"}}", node.node.0, escape(&node.name)), value(node)))
    };
    metric(
        &mut text,
        MetricKind::Gauge,
        "hanare_node_up",
        "Whether the node's lease holds.",
        of_nodes(|node| u64::from(node.alive)),
    );
    metric(
        &mut text,
        MetricKind::Gauge,
        "hanare_node_lent_bytes",
        "Memory that the node lends.",
        of_nodes(|node| node.memory.lent),
    );
    metric(
        &mut text,
        MetricKind::Gauge,
        "hanare_node_lent_max_bytes",
        "Memory that the node lends where its host has enough.",
        of_nodes(|node| node.memory.lent_max),
    );
    metric(
        &mut text,
        MetricKind::Counter,
        "hanare_node_given_back_bytes_total",
        "Free memory that went back to the node's host.",
        of_nodes(|node| node.memory.given_back),
    );
    metric(
        &mut text,
        MetricKind::Gauge,
        "hanare_node_leaving_bytes",
        "Bytes of regions that are to leave because the node's host runs short of memory.",
        of_nodes(|node| node.leaving),
    );
    metric(
        &mut text,
        MetricKind::Gauge,
        "hanare_node_populated_bytes",
        "Lent memory that is populated.",
        of_nodes(|node| node.memory.populated),
    );
    metric(
        &mut text,
        MetricKind::Gauge,
        "hanare_node_used_bytes",
        "Lent memory in extents of regions.",
        of_nodes(|node| node.memory.used),
    );
    metric(
        &mut text,
        MetricKind::Gauge,
        "hanare_node_clients",
        "Programs attached to the node.",
        of_nodes(|node| u64::from(node.memory.clients)),
    );
    text
}

/// A metric of a region: its kind, name and meaning, and where its value stands.
type OfRegion = (MetricKind, &'static str, &'static str, fn(&PageStat) -> u64);

/// All of them.
const OF_REGIONS: &[OfRegion] = &[
    (MetricKind::Gauge, "hanare_region_programs", "Programs of this host that map the region.", |stat| stat.programs.into()),
    (MetricKind::Gauge, "hanare_region_frames", "Pages of other nodes kept on this host.", |stat| stat.frames),
    (MetricKind::Counter, "hanare_region_faults_total", "Touches that the kernel could not serve.", |stat| stat.faults),
    (MetricKind::Counter, "hanare_region_fetched_pages_total", "Pages that programs asked for.", |stat| stat.fetched),
    (MetricKind::Counter, "hanare_region_prefetched_pages_total", "Pages asked for ahead.", |stat| stat.prefetched),
    (MetricKind::Counter, "hanare_region_upgraded_pages_total", "Copies that were to be written.", |stat| stat.upgraded),
    (MetricKind::Counter, "hanare_region_waits_total", "Requests that others had to give a page up for.", |stat| stat.waited),
    (MetricKind::Counter, "hanare_region_invalidated_pages_total", "Copies dropped for a writer.", |stat| stat.invalidated),
    (MetricKind::Counter, "hanare_region_forwarded_pages_total", "Pages passed on to other hosts.", |stat| stat.forwarded),
    (MetricKind::Counter, "hanare_region_evicted_pages_total", "Pages given back to make room.", |stat| stat.evicted),
];

/// Page counts on this host of the regions that it shares.
fn shared(stats: &[PageStat], names: bool) -> String {
    let mut text = String::new();
    for (kind, name, meaning, value) in OF_REGIONS {
        let labels = |stat: &PageStat| format!("{{region=\"{}\",consistency=\"{}\"}}", label(stat, names), stat.consistency);
        metric(&mut text, *kind, name, meaning, stats.iter().map(|stat| (labels(stat), value(stat))));
    }
    text
}

/// Kind of a metric.
#[derive(Clone, Copy)]
enum MetricKind {
    Gauge,
    /// Grows only, while the process lives.
    Counter,
}

fn metric<V: Display>(
    text: &mut String,
    kind: MetricKind,
    name: &str,
    meaning: &str,
    values: impl IntoIterator<Item = (String, V)>,
) {
    let kind = if matches!(kind, MetricKind::Counter) { "counter" } else { "gauge" };
    let _ = writeln!(text, "# HELP {name} {meaning}\n# TYPE {name} {kind}");
    for (labels, value) in values {
        let _ = writeln!(text, "{name}{labels} {value}");
    }
}

/// True for a region of a tenant, of which no other user is told.
fn is_of_tenant(stat: &PageStat) -> bool {
    hanare_protocol::tenant::parts(&stat.name).is_some()
}

/// A region's label.
fn label(stat: &PageStat, names: bool) -> String {
    if names && !stat.name.is_empty() { escape(&stat.name) } else { stat.gid.to_string() }
}

fn escape(label: &str) -> String {
    label.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use hanare_protocol::id::{Epoch, NodeId};
    use hanare_protocol::wire::control::{Memory, NodeStatus};

    #[test]
    fn a_page_has_one_line_for_each_node_and_number() {
        let memory =
            Memory { lent: 4096, lent_max: 9000, populated: 2048, used: 10, page: 4096, clients: 3, ..Memory::default() };
        let node = NodeStatus {
            node: NodeId(1),
            name: "a\"b".into(),
            address: "x:1".into(),
            epoch: Epoch(1),
            alive: true,
            drains: false,
            memory,
            leaving: 5,
            stays: Vec::new(),
        };
        let text = page(&PoolStatus { nodes: vec![node], regions: 7 });
        assert!(text.contains("\nhanare_regions 7\n"), "{text}");
        assert!(text.contains("hanare_node_used_bytes{node=\"1\",name=\"a\\\"b\"} 10\n"), "{text}");
        let samples = text.lines().filter(|line| !line.starts_with('#'));
        assert!(samples.clone().all(|line| line.rsplit_once(' ').is_some_and(|(_, value)| value.parse::<u64>().is_ok())));
        assert!(text.contains("hanare_node_leaving_bytes{node=\"1\",name=\"a\\\"b\"} 5\n"), "{text}");
        assert_eq!(samples.count(), 9);
    }
}
