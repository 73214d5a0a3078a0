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

/// Set where this program runs the test again, by itself.
const ALONE: &str = "MILLION_QUEUES_ALONE";

#[test]
fn a_million_queues_cost_less_than_64_bytes_each_and_keep_their_order() {
    if std::env::var_os(ALONE).is_none() {
        // Other tests of this program have memory of their own.
        let test = "million_queues::a_million_queues_cost_less_than_64_bytes_each_and_keep_their_order";
        let mut alone = std::process::Command::new(std::env::current_exe().unwrap());
        let ended = alone.args(["--exact", test, "--nocapture"]).env(ALONE, "1").output().unwrap();
        let said = String::from_utf8_lossy(&ended.stdout);
        assert!(ended.status.success() && said.contains("1 passed"), "{said}{}", String::from_utf8_lossy(&ended.stderr));
        return;
    }
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
