//! The programs of `apps/streams`: their figures are right on one node and on several, and a pipeline outlives its stages.

use crate::stage;

use hanare::Pool;
use stage::{Stage, each_app, finish, value};
use std::process::Child;
use std::time::{Duration, Instant};

const NODES_AND_RANKS: [(usize, usize); 3] = [(1, 1), (2, 2), (2, 4)];

// FEATURE: VQ-F30
#[test]
fn workers_that_steal_from_each_other_count_all_boards() {
    each_app("streams/farm", &[], |program| {
        for (nodes, ranks) in NODES_AND_RANKS {
            let line = &Stage::of(nodes).pass(program, &["10", "--check"], ranks)[0];
            assert_eq!((value(line, "solutions"), value(line, "ok")), ("724", "1"), "{line}");
            assert!(ranks > 1 || value(line, "stolen") == "0", "{line}");
        }
    });
}

// FEATURE: VQ-F27 VQ-F29
#[test]
fn rows_that_stream_from_rank_to_rank_give_the_product() {
    each_app("streams/product", &[], |program| {
        for (nodes, ranks) in NODES_AND_RANKS {
            let line = &Stage::of(nodes).pass(program, &["48", "--check"], ranks)[0];
            assert_eq!((value(line, "n"), value(line, "wrong")), ("48", "0"), "{line}");
        }
    });
}

// FEATURE: VQ-F29
#[test]
fn calls_in_fixed_blocks_are_answered_each_with_its_own_answer() {
    each_app("streams/rpc", &[], |program| {
        for ranks in [2, 4] {
            let line = &Stage::of(2).pass(program, &["200"], ranks)[0];
            let calls = (200 * (ranks - 1)).to_string();
            assert_eq!((value(line, "calls"), value(line, "wrong")), (calls.as_str(), "0"), "{line}");
        }
    });
}

// FEATURE: VQ-F29
#[test]
fn a_vector_that_is_chained_through_kernels_is_what_a_plain_loop_makes_of_it() {
    each_app("streams/chain", &[], |program| {
        for (nodes, ranks) in NODES_AND_RANKS {
            let printed = Stage::of(nodes).pass(program, &["500"], ranks);
            let line = printed.last().expect("the last rank sums it up");
            assert_eq!((value(line, "strips"), value(line, "wrong")), ("500", "0"), "{line}");
        }
    });
}

/// How many units wait in a queue.
fn waiting(pool: &Pool, queue: &str) -> u64 {
    let queue = pool.open_queue(queue).unwrap();
    queue.stat().unwrap().blocks(queue.form()).unwrap()
}

fn wait_for(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(30), "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

// FEATURE: VQ-F29
#[test]
fn a_pipeline_whose_stages_are_killed_loses_no_block() {
    each_app("streams/pipeline", &[], |program| {
        const COUNT: &str = "5000";
        let stage = Stage::of(2);
        let pool = stage.attach(0);
        let passed = |child: Child| {
            let output = finish(child);
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            String::from_utf8_lossy(&output.stdout).into_owned()
        };
        for (queue, node) in [("in", 0), ("out", 1)] {
            passed(stage.start_alone(program, &["make", queue], node));
        }
        let worker = || stage.start_alone(program, &["stage", "in", "out"], 1);
        let source = stage.start_alone(program, &["source", "in", COUNT], 0);
        // Nobody reads what the first one sends: it is killed when there is no room for more, with a block in its hands.
        let mut first = worker();
        wait_for("the stage fills its queue", || waiting(&pool, "out") == 64 && waiting(&pool, "in") >= 64);
        first.kill().unwrap();
        first.wait().unwrap();
        let sink = stage.start_alone(program, &["sink", "out", COUNT], 0);
        // Further ones are killed while they work.
        for _ in 0..3 {
            let mut next = worker();
            std::thread::sleep(Duration::from_millis(30));
            let _ = next.kill();
            next.wait().unwrap();
        }
        let mut last = worker();
        let line = passed(sink);
        assert_eq!((value(&line, "count"), value(&line, "wrong")), (COUNT, "0"), "{line}");
        passed(source);
        // It may have seen the end, or that may have come to one before it.
        let _ = last.kill();
        last.wait().unwrap();
        for queue in ["in", "out"] {
            pool.remove(queue).unwrap();
        }
    });
}
