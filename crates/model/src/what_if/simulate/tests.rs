use super::*;
use crate::what_if::costs::round_numbers;
use crate::what_if::pattern;
use crate::what_if::program::{Phase, Place, VectorCommand, Verb};

fn setting(nodes: usize, ranks: usize) -> Setting {
    Setting {
        hosts: nodes,
        nodes,
        ranks,
        is_blocked: false,
        cores: 2,
        network: Network { latency: Picos::us(10), bytes_per_second: 1_000_000_000, ..Network::here() },
        topology: Kind::Switch,
        costs: round_numbers(),
        recorded_crowd: None,
        is_held_up: false,
        is_traced: false,
        is_timed: false,
    }
}

fn run_of(text: &str, setting: &Setting) -> Run {
    run(&pattern::parse(text).unwrap(), setting).unwrap()
}

#[test]
fn one_get_is_the_sum_of_its_parts() {
    let run = run_of("get 4KiB", &setting(2, 1));
    // Client 4 us, node 6 us, (96 + 4128) bytes at 0.5 ns for both ends and 1 ns on the line, 10 us each way.
    assert_eq!(run.end, Picos::us(30) + Picos::ns(4_224 / 2) + Picos::ns(4_224));
    assert_eq!(run.traffic["get"], Traffic { messages: 2, bytes: 96 + 4_128 });
    assert_eq!(run.path.of(Expense::Latency), Picos::us(20));
    assert_eq!(run.path.of(Expense::Bytes), Picos::ns(4_224));
    assert_eq!(run.path.of(Expense::Waking), Picos::ZERO);
}

#[test]
fn paths_add_up_to_the_time_whatever_the_program() {
    for (text, nodes, ranks) in [
        ("get 4KiB x200 depth 8", 3, 5),
        ("gather 64 of 8B, compute 2us, barrier x50", 2, 4),
        ("touch x50", 3, 4),
        ("store, barrier x20 spread", 3, 6),
        ("update 64 of 8B x100 depth 4 spread; scan 1MiB spread; get 8B near x9", 4, 4),
    ] {
        let run = run_of(text, &setting(nodes, ranks));
        assert_eq!(run.path.total(), run.end, "{text}");
        assert!(run.end > Picos::ZERO && run.ends.len() == ranks, "{text}");
    }
}

#[test]
fn a_copy_goes_from_node_to_node_and_past_the_rank() {
    let run = run_of("copy 4KiB", &setting(3, 1));
    // To the target, to the source, the bytes back to the target, and the answer: four ways of 10 us, the bytes on one of them.
    assert_eq!(run.traffic["copy"], Traffic { messages: 4, bytes: (96 + 64 + 16) + 96 + (32 + 4096) + 32 });
    assert_eq!(run.path.of(Expense::Latency), Picos::us(40));
    assert_eq!(run.path.total(), run.end);
    assert_eq!(run_of("copy 4KiB near", &setting(3, 1)).traffic.len(), 0);
}

#[test]
fn commands_under_way_share_the_latency_and_the_slower_end_sets_the_pace() {
    let one = run_of("get 8B x1000", &setting(2, 1)).end.as_us() / 1000.0;
    let many = run_of("get 8B x1000 depth 64", &setting(2, 1)).end.as_us() / 1000.0;
    assert!((one - 30.2).abs() < 0.2, "{one}");
    assert!((many - 6.1).abs() < 0.2, "the node's 6 us and its bytes: {many}");
}

#[test]
fn ranks_of_one_host_queue_for_its_processors() {
    let crowded = Setting { hosts: 1, cores: 1, network: Network::here(), ..setting(2, 4) };
    let run = run_of("get 8B x100", &crowded);
    assert!(run.path.of(Expense::Processor) > Picos::ZERO);
    let roomy = run_of("get 8B x100", &Setting { cores: 8, ..crowded });
    assert!(roomy.end < run.end && roomy.path.of(Expense::Processor) == Picos::ZERO);
}

#[test]
fn who_waits_longer_than_the_products_limits_has_parked() {
    let silent = run_of("get 8B, compute 1ms x10", &setting(2, 1));
    assert_eq!(silent.path.of(Expense::Waking), Picos::us(40) * 9);
    let far = Setting { network: Network { latency: Picos::ms(1), ..setting(2, 1).network }, ..setting(2, 1) };
    // The program and the node both park in each round trip of 2 ms.
    assert_eq!(run_of("get 8B x10", &far).path.of(Expense::Waking), Picos::us(40) * 20);
}

#[test]
fn a_barrier_is_two_messages_a_rank_and_waits_for_the_last() {
    let run = run_of("barrier x10", &setting(4, 4));
    assert_eq!(run.traffic["barrier"].messages, 10 * 4 * 2);
    let slow = pattern::parse("compute 1ms, barrier").unwrap();
    let fast = pattern::parse("barrier").unwrap();
    let program = Program { ranks: vec![fast.ranks[0].clone(), slow.ranks[0].clone()], ..fast };
    let both = super::run(&program, &setting(2, 2)).unwrap();
    assert!(both.ends.iter().all(|end| *end > Picos::ms(1)), "{:?}", both.ends);
    assert_eq!(both.path.of(Expense::Computing), Picos::ms(1), "the way to the end goes through the slower rank");
}

#[test]
fn a_link_with_credit_paces_and_adds_nothing_to_who_was_silent() {
    // 32 us of burst at 8 ns a byte; a request and its answer are 96 and 4128 bytes.
    let shaped = Network { bytes_per_second: 125_000_000, burst: 8_000, ..Network::here() };
    let of = |text: &str, is_shared| run_of(text, &Setting { network: Network { is_shared, ..shaped.clone() }, ..setting(2, 1) });
    let silent = of("get 4KiB, compute 1ms x100", false);
    let here = run_of("get 4KiB, compute 1ms x100", &Setting { network: Network::here(), ..setting(2, 1) });
    assert!(silent.end - here.end < Picos::us(35), "only the first found no credit: {} {}", silent.end, here.end);
    assert_eq!(silent.path.total(), silent.end);
    let paced = of("get 4KiB x1000", false).end.as_us() / 1000.0;
    assert!((paced - 4.128 * 8.0).abs() < 0.5, "the answers' bytes and no more: {paced}");
    let shared = of("get 4KiB x1000", true).end.as_us() / 1000.0;
    assert!((shared - 4.224 * 8.0).abs() < 0.5, "the requests' bytes, too: {shared}");
}

#[test]
fn who_has_no_processor_of_its_own_takes_one_from_another() {
    let of = |text: &str, ranks: usize, cores| {
        let setting = Setting { hosts: 1, cores, network: Network::here(), ..setting(2, ranks) };
        run_of(text, &setting).end.as_us() / 1000.0
    };
    // Alone there are a program and a node, each on a processor. Two of each share two processors: making, serving and taking in each
    // take one from another, at 1 us.
    let (alone, both, roomy) = (of("get 4KiB x1000", 1, 2), of("get 4KiB x1000", 2, 2), of("get 4KiB x1000", 2, 4));
    assert!((alone - roomy).abs() < 0.1, "{alone} {roomy}");
    assert!((both - alone - 3.0).abs() < 0.2, "{alone} {both}");
    // At a barrier of two ranks there are two programs and the home.
    assert!(of("barrier x1000", 2, 2) > of("barrier x1000", 2, 3) + 2.0);
    assert_eq!(of("barrier x1000", 1, 2), 1.0, "a request to the own node");
}

#[test]
fn who_waits_for_a_moment_goes_on_when_a_rank_comes_to_it() {
    let steps = |steps: Vec<Step>| vec![Phase { steps, times: 1, depth: 8 }];
    let get = || Step::Command(VectorCommand { verb: Verb::Get, elements: 1, len: 8, place: Place::Far });
    let program = |ranks| Program { name: String::new(), ranks, rank_count: None };
    let waits = program(vec![
        steps(vec![get(), Step::Hear(7), Step::Local(Picos::us(3))]),
        steps(vec![Step::Compute(Picos::ms(2)), Step::Tell(7), Step::Tell(8), Step::Kept(Picos::ms(1))]),
    ]);
    let timed = Setting { is_timed: true, ..setting(2, 2) };
    let run = super::run(&waits, &timed).unwrap();
    // The rank had parked: 40 us.
    assert_eq!(run.ends, [Picos::ms(2) + Picos::us(43), Picos::ms(3)]);
    assert_eq!(run.path.of(Expense::Kept), Picos::ms(1));
    assert_eq!(run.starts[1], [Picos::ZERO, Picos::ms(2), Picos::ms(2), Picos::ms(2), Picos::ms(3)]);
    assert_eq!(run.starts[0].len(), 4, "each step, and the end");
    // A moment that is past holds nobody up, and one that never comes is said.
    let past = program(vec![steps(vec![Step::Compute(Picos::us(9)), Step::Hear(7)]), steps(vec![Step::Tell(7)])]);
    assert_eq!(super::run(&past, &timed).unwrap().end, Picos::us(9));
    let never = program(vec![steps(vec![Step::Hear(7)]), steps(vec![Step::Tell(8)])]);
    assert!(super::run(&never, &timed).err().unwrap().to_string().contains("waits for ever"));
    // A hundred thousand of them are no deep recursion.
    let many = program(vec![steps((0..100_000).flat_map(|k| [Step::Tell(k), Step::Hear(k), Step::Wait { left: 0 }]).collect())]);
    assert_eq!(super::run(&many, &Setting { ranks: 1, ..timed }).unwrap().end, Picos::ZERO);
}

#[test]
fn recorded_computing_takes_as_long_as_it_took_with_so_many_programs() {
    let crowded = |recorded_crowd| Setting { hosts: 1, cores: 1, network: Network::here(), recorded_crowd, ..setting(2, 2) };
    let of = |recorded| run_of("compute 1ms x10", &crowded(recorded)).end;
    assert_eq!((of(Some(2.0)), of(Some(3.0))), (Picos::ms(10), Picos::ms(10)));
    assert!(of(None) >= Picos::ms(20) && of(Some(1.0)) >= Picos::ms(20), "more programs a processor than there");
}

#[test]
fn ranks_that_never_meet_are_refused() {
    let one = pattern::parse("barrier").unwrap();
    let program = Program { ranks: vec![one.ranks[0].clone(), Vec::new()], ..one };
    let error = super::run(&program, &setting(2, 2)).err().unwrap();
    assert!(error.to_string().contains("waits for ever"), "{error}");
}

#[test]
fn touches_send_what_the_products_rules_say() {
    // Read, remote, clean: two messages, one with the page.
    let read = run_of("touch x100", &setting(2, 1));
    assert_eq!(read.traffic["page"], Traffic { messages: 200, bytes: 100 * (32 + 24 + 32 + 8 + 4096) });
    // Write, remote: three.
    assert_eq!(run_of("store x100", &setting(2, 1)).traffic["page"].messages, 300);
    // The first host reads, the second writes each page after it: 3 + 2k with k = 1.
    let program = Program {
        ranks: vec![
            pattern::parse("touch; barrier").unwrap().ranks[0].clone(),
            pattern::parse("barrier; store near").unwrap().ranks[0].clone(),
        ],
        ..pattern::parse("barrier").unwrap()
    };
    let shared = super::run(&program, &setting(2, 2)).unwrap();
    assert_eq!(shared.traffic["page"].messages, 2 + 2, "the home's own host writes what another has: 2k");
}

#[test]
fn loads_take_no_message_and_no_nodes_thread() {
    let cxl = Setting { network: Network::find("cxl2").unwrap(), ..setting(2, 1) };
    let run = run_of("get 64KiB x10", &cxl);
    assert_eq!(run.traffic.keys().copied().collect::<Vec<_>>(), ["lines loaded or stored"]);
    // 1024 lines, 16 under way, 250 ns each: 16 us, and 50 ns for the call.
    assert_eq!(run.end, (Picos::us(16) + Picos::ns(50)) * 10);
}

#[test]
fn a_thousand_nodes_on_a_tree_and_a_torus() {
    let of = |text: &str, topology| {
        let network = Network { hop: Picos::us(1), ..setting(2, 1).network };
        let run = run_of(text, &Setting { topology, network, ..setting(1024, 64) });
        (run.end, run.traffic["get"].messages)
    };
    let ((tree, messages), (torus, same)) = (of("get 64KiB x4", Kind::FatTree), of("get 64KiB x4", Kind::Torus));
    assert_eq!((messages, same), (64 * 4 * 2, messages));
    // From node 63 to 64 a tree of 8 nodes a switch has four switches after the first, a torus of 8 x 8 x 16 three.
    assert_eq!(tree - torus, Picos::us(1) * 2 * 4);
    assert_eq!(of("get 64KiB spread", Kind::Torus).1, 64 * 1023 * 2);
}

#[test]
fn a_lock_that_nobody_else_wants_is_asked_for_once() {
    let run = run_of("lock, get 8B, unlock x100", &setting(2, 1));
    assert_eq!((run.traffic["lock"].messages, run.traffic["get"].messages), (2, 200));
    assert_eq!(run.path.total(), run.end);
}

#[test]
fn one_rank_at_a_time_has_the_lock_and_those_that_wait_get_it_in_turn() {
    for (nodes, ranks) in [(1, 3), (2, 2), (3, 5)] {
        let run = run_of("lock, compute 1ms, unlock x10", &setting(nodes, ranks));
        let turns = 10 * ranks as u64;
        assert!(run.end >= Picos::ms(turns), "{nodes} {ranks}: {}", run.end);
        // A claim, a grant, and two words to give it back; a lease that is recalled adds two of nodes.
        let messages = run.traffic["lock"].messages;
        assert!((2 * ranks as u64..=6 * turns).contains(&messages), "{nodes} {ranks}: {messages}");
        assert_eq!(run.path.total(), run.end);
    }
    // Work outside of the lock goes on beside the others' turns.
    let beside = run_of("compute 5ms, lock, compute 1ms, unlock x10", &setting(2, 2));
    assert!(beside.end < Picos::ms(10 * (5 + 1) + 10), "{}", beside.end);
}

#[test]
fn a_lease_that_another_wants_is_recalled_from_the_node_of_its_holder() {
    // The first rank keeps the lock and computes; the second asks later, and the first is not woken for it.
    let mut program = pattern::parse("lock, unlock; compute 50ms").unwrap();
    program.ranks.push(pattern::parse("compute 5ms, lock, compute 1ms, unlock").unwrap().ranks.remove(0));
    for (nodes, messages) in [(2, 4), (1, 4)] {
        let run = run(&program, &setting(nodes, 2)).unwrap();
        // Each claims and is granted it; rank 0 is on the home's own node, which is asked without a message.
        assert_eq!(run.traffic["lock"].messages, messages, "{nodes}");
        assert!(run.ends[1] < Picos::ms(8), "{}", run.ends[1]);
    }
    program.ranks.rotate_left(1);
    let run = run(&program, &setting(2, 2)).unwrap();
    assert_eq!(run.traffic["lock"].messages, 6, "the holder is on another node: a recall and its answer");
}
