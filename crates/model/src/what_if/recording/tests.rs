use super::*;
use crate::what_if::program::Lengths;
use serde_json::json;

fn event(phase: &str, name: &str, category: &str, at: f64, args: Value) -> Value {
    json!({ "ph": phase, "name": name, "cat": category, "ts": at, "pid": 0, "tid": 9, "args": args })
}

fn with(mut event: Value, key: &str, value: impl Into<Value>) -> Value {
    event[key] = value.into();
    event
}

fn id(event: Value, id: u64) -> Value {
    with(event, "id2", json!({ "local": id }))
}

fn request(node: u32, at: f64, number: u64, kind: &str, sent: u64) -> Value {
    id(event("b", &format!("request to node {node}"), "request", at, json!({ "kind": kind, "bytes_sent": sent })), number)
}

fn answer(at: f64, number: u64, received: u64) -> Value {
    id(event("e", "request to node 1", "request", at, json!({ "bytes_received": received })), number)
}

fn get(at: f64) -> [Value; 4] {
    let number = at as u64;
    [
        event("B", "get", "command", at, json!({ "bytes": 4096 })),
        request(1, at + 1.0, number, "commands", 64),
        answer(at + 9.0, number, 4096),
        event("E", "get", "command", at + 10.0, json!({})),
    ]
}

fn slice(name: &str, category: &str, at: f64, end: f64) -> [Value; 2] {
    [event("B", name, category, at, json!({})), event("E", name, category, end, json!({}))]
}

fn of(ranks: &[Vec<Value>]) -> Result<Recording, (usize, String)> {
    let made = RecordedRun { program: vec!["test".to_string()], nodes: 2, ranks: ranks.len(), host: String::new() };
    of_events(made, ranks)
}

/// The steps of a rank alone, and what took a time by itself.
fn alone(events: &[Value]) -> (Vec<Step>, Vec<OwnTime>) {
    let recording = of(&[events.to_vec()]).unwrap();
    (recording.program.ranks[0][0].steps.clone(), recording.taken[0].clone())
}

fn asks(node: usize, request: u64, answer: u64) -> Step {
    Step::Requests(vec![(node, Lengths { request, answer })])
}

const KEPT: Step = Step::Kept(Picos::ZERO);
const WAIT: Step = Step::Wait { left: 0 };

#[test]
fn gets_barriers_and_the_work_between_become_steps() {
    let mut events = vec![json!({ "ph": "M", "name": "process_name" })];
    events.extend(get(100.0));
    events.extend(get(112.0));
    events.extend(slice("barrier", "wait", 152.0, 160.0));
    let get = || [asks(1, 96, 32 + 4096), WAIT, KEPT];
    let mut wanted = vec![Step::Compute(Picos::ZERO)];
    wanted.extend(get());
    wanted.push(Step::Compute(Picos::us(2)));
    wanted.extend(get());
    wanted.extend([Step::Compute(Picos::us(30)), Step::Barrier]);
    let (steps, taken) = alone(&events);
    assert_eq!(steps, wanted);
    let took = Picos::us(10);
    assert_eq!(taken, [OwnTime { from: 1, to: 3, took }, OwnTime { from: 5, to: 7, took }]);
    assert_eq!(of(&[events]).unwrap().span(), Picos::us(60));
}

#[test]
fn the_writing_of_the_timeline_is_no_work_of_the_program() {
    // Between the two 1.5 us of 2 went into writing, and in the second 3 of 10.
    let [begin, asked, answered, end] = get(112.0);
    let second = [with(begin, "wrote", 1.5), with(asked, "wrote", 1.0), answered, with(end, "wrote", 2.0)];
    let events = [&get(100.0)[..], &second].concat();
    let (steps, taken) = alone(&events);
    assert_eq!(steps[4], Step::Compute(Picos::ns(500)));
    assert_eq!(taken[1].took, Picos::us(7));
    assert_eq!(of(&[events]).unwrap().span(), Picos::us(22) - Picos::ns(4_500));
}

#[test]
fn commands_under_way_together_stay_so() {
    let begin = |number: u64, at: f64| {
        let begun = id(event("b", "get", "command", at, json!({ "bytes": 8 })), number);
        [begun, request(1, at + 0.5, 10 + number, "commands", 64)]
    };
    let over = |number: u64, at: f64| id(event("e", "get", "command", at, json!({})), number);
    let events = [&begin(1, 10.0)[..], &begin(2, 15.0), &[over(1, 90.0), over(2, 95.0)]].concat();
    // The gap before an end belongs to it: since when the thread waited, nothing says. The answers' bytes are the command's.
    let wanted = [
        Step::Compute(Picos::ZERO),
        asks(1, 96, 40),
        Step::Compute(Picos::us(5)),
        asks(1, 96, 40),
        Step::Wait { left: 1 },
        KEPT,
        WAIT,
        KEPT,
    ];
    let (steps, taken) = alone(&events);
    assert_eq!(steps, wanted);
    assert_eq!(taken.iter().map(|taken| taken.took).collect::<Vec<_>>(), [Picos::us(75), Picos::us(5)]);
}

#[test]
fn questions_outside_any_command_are_waited_for_or_come_back_to() {
    // An unlock, say: nothing else happens until its answer.
    let events = [request(1, 10.0, 1, "shared", 40), answer(30.0, 1, 8)];
    let (steps, taken) = alone(&events);
    assert_eq!(steps, [Step::Compute(Picos::ZERO), asks(1, 72, 40), WAIT, KEPT]);
    assert_eq!(taken[0].took, Picos::us(20));
    // A question that is left open while the thread goes on.
    let events = [&[request(1, 10.0, 1, "shared", 40)][..], &get(20.0), &[answer(50.0, 1, 8)]].concat();
    let (steps, _) = alone(&events);
    let wanted = [
        Step::Compute(Picos::ZERO),
        asks(1, 72, 40),
        Step::Compute(Picos::us(10)),
        asks(1, 96, 32 + 4096),
        Step::Wait { left: 1 },
        KEPT,
        WAIT,
        KEPT,
    ];
    assert_eq!(steps, wanted);
}

#[test]
fn pages_have_their_messages_and_what_was_here_its_time() {
    let fault = |name: &str, at: f64, ahead: u64| {
        with(event("X", name, "fault", at, json!({ "pages_ahead": ahead, "access": "read" })), "dur", 5.0)
    };
    let pages = |event: Value, messages: u64| {
        let told = json!({ "messages": messages, "bytes_sent": 100 * messages, "bytes_received": 8000 * messages, "nodes": [1] });
        with(event, "pages", told)
    };
    let [begin, end] = slice("flush", "mapping", 60.0, 80.0);
    let events = [
        // Two of three needed the home; the second brought three times as many pages.
        pages(fault("fault, fetched", 10.0, 0), 4),
        fault("fault, mapped", 20.0, 0),
        fault("fault, fetched", 30.0, 2),
        begin,
        pages(end, 2),
    ];
    let (steps, taken) = alone(&events);
    let page = || [asks(1, 100, 8000), WAIT];
    let mut wanted = vec![Step::Compute(Picos::ZERO)];
    wanted.extend([page().to_vec(), vec![KEPT, Step::Compute(Picos::us(5)), Step::Local(Picos::us(5))]].concat());
    wanted.push(Step::Compute(Picos::us(5)));
    wanted.extend([page(), page(), page()].concat());
    wanted.extend([KEPT, Step::Compute(Picos::us(25))]);
    wanted.extend([page(), page()].concat());
    wanted.push(KEPT);
    assert_eq!(steps, wanted);
    assert_eq!(taken.last().unwrap().took, Picos::us(20));
    // A hostile count is no endless list.
    let many = [pages(fault("fault, fetched", 10.0, 0), 1 << 40)];
    assert_eq!(alone(&many).0.len(), 2 * (1 << 12) + 2);
}

#[test]
fn the_bytes_of_pages_are_not_of_the_own_node() {
    let mut fault = event("X", "fault, fetched", "fault", 10.0, json!({ "pages_ahead": 3 }));
    fault["dur"] = 900.into();
    fault["pages"] = json!({ "messages": 4, "bytes_sent": 200, "bytes_received": 8400, "nodes": [0, 1] });
    // Half of the messages ask rank 0's own node for leave.
    let both =
        || Step::Requests(vec![(0, Lengths { request: 32 + 24, answer: 32 + 8 }), (1, Lengths { request: 100, answer: 4200 })]);
    assert_eq!(alone(&[fault]).0, [Step::Compute(Picos::ZERO), both(), WAIT, both(), WAIT, KEPT]);
}

#[test]
fn pages_that_come_later_go_over_the_line_too() {
    let mut fault = event("X", "fault, waited", "fault", 10.0, json!({ "pages_ahead": 0 }));
    fault["dur"] = 900.into();
    fault["pages"] = json!({ "messages": 1, "bytes_sent": 90, "bytes_received": 500, "pages_later": 65, "nodes": [0] });
    let pages = |count: u64| asks(1, 32 + 24 * count, 32 + (8 + 4096) * count);
    let wanted = [Step::Compute(Picos::ZERO), asks(0, 90, 500), WAIT, pages(64), WAIT, pages(1), WAIT, KEPT];
    assert_eq!(alone(std::slice::from_ref(&fault)).0, wanted);
    // Of the last rank the first node is the next.
    let recording = of(&[get(1.0).to_vec(), vec![fault]]).unwrap();
    assert_eq!(recording.nodes_asked(), 2);
    assert!(recording.program.ranks[1][0].steps.contains(&asks(0, 32 + 24, 32 + 8 + 4096)));
}

/// Rank 0 waits for a lock that rank 1 gives back at 500 us.
fn one_waits_for_the_other() -> [Vec<Value>; 2] {
    let waits = [
        event("B", "take a lock", "wait", 100.0, json!({})),
        request(0, 101.0, 1, "shared", 50),
        answer(520.0, 1, 4),
        event("E", "take a lock", "wait", 521.0, json!({})),
    ];
    let holds = [&get(90.0)[..], &[request(0, 500.0, 900, "shared", 30), answer(540.0, 900, 0)], &get(900.0)].concat();
    [waits.to_vec(), holds]
}

#[test]
fn a_wait_ends_when_the_other_rank_acts() {
    let recording = of(&one_waits_for_the_other()).unwrap();
    let steps = |rank: usize| &recording.program.ranks[rank][0].steps;
    // Rank 0 began 10 us after the other, and hears of the moment before its own request.
    assert_eq!(*steps(0), [Step::Compute(Picos::us(10)), Step::Hear(0), asks(0, 82, 36), WAIT]);
    assert_eq!(steps(1)[4..7], [Step::Compute(Picos::us(400)), Step::Tell(0), asks(0, 62, 32)]);
    assert!(recording.taken[0].is_empty(), "how long it waited is the other's");
    assert_eq!(recording.waited, [Picos::us(421), Picos::ZERO]);
}

#[test]
fn a_store_without_a_command_is_a_moment_in_the_others_work() {
    let waits = slice("wait for a word", "wait", 100.0, 600.0);
    let works = [&get(90.0)[..], &get(900.0)].concat();
    let recording = of(&[waits.to_vec(), works]).unwrap();
    let steps = |rank: usize| &recording.program.ranks[rank][0].steps;
    assert_eq!(*steps(0), [Step::Compute(Picos::us(10)), Step::Hear(0)]);
    // An answer's time before the end: at 580 us, of a gap from 100 to 900.
    assert_eq!(steps(1)[4..7], [Step::Compute(Picos::us(480)), Step::Tell(0), Step::Compute(Picos::us(320))]);
}

#[test]
fn a_short_wait_waited_for_nobody() {
    let [mut waits, holds] = one_waits_for_the_other();
    waits.extend(slice("take a lock", "wait", 600.0, 640.0));
    let recording = of(&[waits, holds]).unwrap();
    let steps = &recording.program.ranks[0][0].steps;
    assert_eq!(steps[4..], [Step::Compute(Picos::us(79)), Step::Local(Picos::us(40))]);
}

#[test]
fn what_cannot_be_followed_is_said() {
    let problem = |events: &[Value]| of(&[events.to_vec()]).unwrap_err().1;
    let mut two = get(1.0).to_vec();
    two.push(json!({ "ph": "X", "name": "get", "ts": 3.0, "dur": 1.0, "tid": 10 }));
    assert!(problem(&two).contains("more than one thread"));
    assert!(problem(&get(1.0)[..2]).contains("inside a command"));
    assert!(problem(&get(1.0)[3..]).contains("never began"));
    assert!(problem(&[event("B", "get", "command", -1.0, json!({}))]).contains("without ts"));
    assert!(
        problem(&[id(event("b", "request to all", "request", 1.0, json!({ "bytes_sent": 1 })), 1)]).contains("names no node")
    );
    let open = |number| id(event("b", "get", "command", 1.0, json!({})), number);
    assert!(problem(&(0..5000).map(open).collect::<Vec<_>>()).contains("4096"));
}

#[test]
fn a_folder_that_is_none_is_named() {
    assert!(load(Path::new("/nowhere/at/all")).unwrap_err().to_string().starts_with("/nowhere/at/all/run.json"));
    assert!(made(r#"{ "program": [], "nodes": 0, "ranks": 1 }"#).is_err() && made("[]").is_err());
    assert_eq!(made(r#"{ "program": ["a"], "nodes": 2, "ranks": 1 }"#).unwrap().host, "");
}
