//! A million virtual queues: memory of the model, as the kernel counts it, alone in its process.

use hanare_model::papers::virtual_queue::machine::Machine;
use hanare_model::papers::virtual_queue::traffic::{Shape, run};
use hanare_model::time::Picos;

/// The most memory that this process ever had, in bytes; none where the kernel does not tell.
fn most_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok().map(|kib| kib << 10)
}

#[test]
fn a_million_queues_cost_less_than_64_bytes_each_and_keep_their_order() {
    let paper = hanare_model::papers().iter().find(|paper| paper.id == "virtual-queue").unwrap();
    let machine = Machine::new(&(paper.parameters)());
    let shape = |streams: usize| Shape {
        processors: 256,
        messages: 1_000,
        streams,
        work: Picos::ns(100),
        locality: 0.5,
        capacity: 16,
        reading: Picos::ZERO,
        is_hot: false,
        seed: 11,
    };
    // The same program on 256 queues: what it needs besides.
    assert!(run(&machine, &shape(1)).is_in_order);
    let Some(before) = most_memory() else { return };
    let measured = run(&machine, &shape(4096));
    assert!(measured.is_in_order && measured.counts.arrived == 256_000, "{measured:?}");
    let more = most_memory().unwrap().saturating_sub(before);
    assert!(more < 64 << 20, "{} B a queue", more >> 20);
}
