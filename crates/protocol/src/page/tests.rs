//! The cost of each kind of access, in messages, pages sent, and messages one after the other. Some situations by name.

use super::directory::{Output, Phase};
use super::word::{Fault, Fill, State};
use super::*;
use std::collections::VecDeque;

const PAGE: Page = Page(3);

enum To {
    Home(ToHome),
    Host(HostId, ToHost),
}

/// What an access cost on the network. Host 0 is the home's own: what it and the home say to each other is no message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Cost {
    messages: u32,
    /// Messages that carry the page.
    pages: u32,
    /// Messages one after the other until the access may go on.
    hops: u32,
}

fn cost(messages: u32, pages: u32, hops: u32) -> Cost {
    Cost { messages, pages, hops }
}

/// A host, and the one thread that it has.
struct Station {
    rules: Host<()>,
    place: Plain<()>,
}

const SLOT: u16 = 1;

impl Station {
    fn new(host: u16) -> Station {
        let mut place = Plain::new(HostId(host), host == 0, 8, SLOT + 1);
        (0..8).filter(|_| host == 0).for_each(|page| place.set_frame(Page(page), Some(())));
        Station { rules: Host::default(), place }
    }

    fn state(&self) -> State {
        self.place.look(PAGE).state().unwrap()
    }

    /// A thread touches the page; returns what it asks for.
    fn touch(&mut self, page: Page, access: Access) -> Option<ToHome> {
        let has = match self.place.fault(page, SLOT, access).unwrap() {
            Fault::Map(_) => {
                self.place.leave(page, SLOT).unwrap();
                return None;
            }
            Fault::Fetch { .. } => None,
            Fault::Upgrade { has } => Some(has),
            Fault::Wait(word) => panic!("nobody else is at it: {word:?}"),
        };
        Some(ToHome::Request { ticket: Ticket { slot: SLOT, number: self.place.number(SLOT) }, access, has, firm: false })
    }

    /// What the host says to a message, when all has been taken that it asks for.
    fn hear(&mut self, message: ToHost) -> Vec<HostOutput<()>> {
        let (mut outputs, bytes) = (Vec::new(), message.has_bytes().then_some(()));
        self.rules.on_message(&mut self.place, PAGE, message, bytes, &mut outputs).unwrap();
        while self.rules.turn(&mut self.place, &mut outputs).unwrap() {}
        outputs
    }
}

struct Pool {
    directory: Directory,
    hosts: Vec<Station>,
    messages: VecDeque<(u16, To, u32)>,
    cost: Cost,
}

impl Pool {
    fn new(hosts: u16) -> Pool {
        Pool {
            directory: Directory::new(8, HostId(0)),
            hosts: (0..hosts).map(Station::new).collect(),
            messages: VecDeque::new(),
            cost: Cost::default(),
        }
    }

    fn post(&mut self, from: u16, to: To, has_bytes: bool, hops: u32) {
        let is_local = match &to {
            To::Home(_) => from == 0,
            To::Host(host, _) => host.0 == from,
        };
        if !is_local {
            self.cost.messages += 1;
            self.cost.pages += u32::from(has_bytes);
        }
        self.messages.push_back((from, to, hops + u32::from(!is_local)));
    }

    fn drain(&mut self, hops: u32) {
        while let Some(output) = self.directory.poll() {
            match output {
                Output::Send(to, _, message) => {
                    let has_bytes = message.has_bytes();
                    self.post(0, To::Host(to, message), has_bytes, hops);
                }
                Output::Ready(..) => self.cost.hops = hops,
                Output::Failed(..) => panic!("nothing is lost"),
            }
        }
    }

    fn say(&mut self, host: u16, outputs: Vec<HostOutput<()>>, hops: u32) {
        for say in outputs {
            match say {
                HostOutput::Home { message, bytes, .. } => {
                    assert_eq!(bytes.is_some(), message.has_bytes());
                    self.post(host, To::Home(message), bytes.is_some() && host != 0, hops);
                }
                HostOutput::Host { to, message, bytes, .. } => self.post(host, To::Host(to, message), bytes.is_some(), hops),
                HostOutput::Flush { .. } => {}
            }
        }
    }

    fn run(&mut self) {
        while let Some((from, to, hops)) = self.messages.pop_front() {
            match to {
                To::Home(message) => {
                    self.directory.handle(HostId(from), PAGE, message).unwrap();
                    self.drain(hops);
                }
                To::Host(host, message) => {
                    let station = &mut self.hosts[usize::from(host.0)];
                    let was_claimed = station.place.look(PAGE).is_claimed();
                    let outputs = station.hear(message);
                    if was_claimed && !station.place.look(PAGE).is_claimed() {
                        // The thread goes on.
                        station.place.clear_slot(SLOT);
                        self.cost.hops = hops;
                    }
                    self.say(host.0, outputs, hops);
                }
            }
        }
    }

    fn touch(&mut self, host: u16, access: Access) -> Cost {
        self.cost = Cost::default();
        if let Some(want) = self.hosts[usize::from(host)].touch(PAGE, access) {
            self.post(host, To::Home(want), false, 0);
        }
        self.run();
        assert_eq!(self.hosts[usize::from(host)].touch(PAGE, access), None);
        self.cost
    }

    fn evict(&mut self, host: u16) -> Cost {
        self.cost = Cost::default();
        let Station { rules, place } = &mut self.hosts[usize::from(host)];
        let mut outputs = Vec::new();
        assert!(rules.evict(place, PAGE).unwrap() && rules.turn(place, &mut outputs).unwrap());
        self.say(host, outputs, 0);
        self.run();
        self.cost
    }

    fn face(&mut self, access: Access) -> Cost {
        self.cost = Cost::default();
        self.directory.recall(PAGE, Face(1), access);
        self.drain(0);
        self.run();
        self.directory.release(PAGE, Face(1));
        self.drain(0);
        self.run();
        self.cost
    }

    fn phase(&self) -> Phase {
        self.directory.phase(PAGE)
    }
}

use Access::{Read, Write};

#[test]
// FEATURE: EU-F14 EU-F16 EU-F17 EU-F23
fn accesses_cost_what_the_module_says() {
    let mut pool = Pool::new(5);
    assert_eq!(pool.touch(1, Read), cost(2, 1, 2), "another node's memory, clean");
    assert_eq!(pool.touch(0, Read), cost(0, 0, 0), "own memory, clean: nobody is told");
    assert_eq!(pool.touch(1, Read), cost(0, 0, 0), "a copy is here");
    assert_eq!(
        pool.touch(2, Write),
        cost(6, 1, 3),
        "one other host and the home's have copies; its acknowledgement is local to nobody"
    );
    assert_eq!(pool.touch(2, Write), cost(0, 0, 0), "it is the owner's");
    assert_eq!(pool.touch(3, Read), cost(4, 2, 3), "another node's memory, dirty in a third: a copy also goes home");
    assert_eq!(pool.phase(), Phase::Shared);
    assert_eq!(pool.touch(3, Write), cost(5, 0, 3), "an upgrade sends no page");
    assert_eq!(pool.touch(4, Write), cost(4, 1, 3), "the page goes from owner to owner, not home");
    assert_eq!(pool.touch(0, Read), cost(2, 1, 2), "own memory, dirty elsewhere");
    assert_eq!(pool.touch(0, Write), cost(2, 0, 2), "own memory, one copy elsewhere");
    assert_eq!(pool.touch(1, Write), cost(3, 1, 2), "the owner is at home");
    assert_eq!(pool.touch(0, Write), cost(2, 1, 2), "own memory, dirty elsewhere, to write");
}

#[test]
fn one_invalidation_for_each_sharer_and_none_for_others() {
    let mut pool = Pool::new(12);
    for readers in 1..10u16 {
        for host in 1..=readers {
            pool.touch(host, Read);
        }
        let k = u32::from(readers);
        assert_eq!(pool.touch(11, Write), cost(3 + 2 * k, 1, 3), "{readers} readers");
        pool.evict(11);
    }
}

#[test]
// FEATURE: EU-F15
fn gets_and_puts_by_command_cost_a_recall_where_somebody_else_owns_the_page() {
    let mut pool = Pool::new(3);
    assert_eq!(pool.face(Read), cost(0, 0, 0));
    assert_eq!(pool.face(Write), cost(0, 0, 0));
    pool.touch(1, Write);
    assert_eq!(pool.face(Read), cost(2, 1, 2));
    assert_eq!(pool.face(Read), cost(0, 0, 0), "the owner keeps a copy, and the bytes are at home");
    pool.touch(0, Read);
    assert_eq!(pool.face(Write), cost(2, 0, 2), "the home's own copy shows what is put");
    assert_eq!(pool.phase(), Phase::Shared);
    pool.touch(1, Write);
    assert_eq!(pool.face(Write), cost(2, 1, 2));
    assert_eq!(pool.phase(), Phase::Home);
    pool.touch(0, Write);
    assert_eq!(pool.face(Write), cost(0, 0, 0));
    assert_eq!(pool.phase(), Phase::Owned, "of the home's own host");
}

#[test]
fn evictions_cost_a_message_only_for_what_was_written() {
    let mut pool = Pool::new(3);
    pool.touch(1, Read);
    assert_eq!(pool.evict(1), cost(0, 0, 0));
    pool.touch(1, Write);
    assert_eq!(pool.evict(1), cost(1, 1, 0));
    assert_eq!(pool.phase(), Phase::Home);
}

#[test]
fn hosts_beyond_the_bitmap_are_hosts() {
    let mut pool = Pool::new(130);
    for host in [1, 63, 64, 100, 129] {
        pool.touch(host, Read);
    }
    assert_eq!(pool.touch(100, Write), cost(3 + 2 * 4, 0, 3));
    assert_eq!(pool.touch(129, Write), cost(4, 1, 3));
    assert_eq!(pool.evict(129), cost(1, 1, 0));
    for host in [2, 90] {
        pool.touch(host, Read);
    }
    pool.directory.on_host_lost(HostId(90));
    assert_eq!(pool.touch(3, Write), cost(3 + 2, 1, 3), "nobody asks the dead");
}

/// Messages that come in another order than [`Pool::run`] brings them.
fn wants(directory: &mut Directory, host: u16, number: u32, access: Access) -> Vec<Output> {
    let want = ToHome::Request { ticket: Ticket { slot: 0, number }, access, has: None, firm: false };
    assert_eq!(directory.handle(HostId(host), PAGE, want).unwrap(), Heard::Acted);
    std::iter::from_fn(|| directory.poll()).collect()
}

#[test]
fn requests_are_served_in_the_order_in_which_they_came() {
    let mut directory = Directory::new(8, HostId(0));
    assert_eq!(wants(&mut directory, 1, 1, Write).len(), 1);
    for host in 2..6 {
        assert_eq!(wants(&mut directory, host, 1, Write), [], "it waits");
    }
    let mut version = Version::FIRST.next();
    for host in 1..5 {
        let ticket = Ticket { slot: 0, number: 1 };
        directory.handle(HostId(host), PAGE, ToHome::Done { ticket, version }).unwrap();
        let next = ToHost::Forward { era: version, to: HostId(host + 1), ticket, access: Write, hold_us: 0 };
        assert_eq!(directory.poll(), Some(Output::Send(HostId(host), PAGE, next)));
        assert_eq!(directory.poll(), None);
        version = version.next();
    }
}

#[test]
fn a_page_has_a_bounded_queue() {
    let mut directory = Directory::new(8, HostId(0));
    wants(&mut directory, 1, 1, Write);
    for face in 0..crate::limits::PAGE_QUEUE_MAX as u64 {
        directory.recall(PAGE, Face(face), Read);
    }
    assert_eq!(directory.poll(), None);
    let refused = ToHost::Refused { ticket: Ticket { slot: 0, number: 1 }, reason: Refusal::Full };
    assert_eq!(wants(&mut directory, 2, 1, Read), [Output::Send(HostId(2), PAGE, refused)]);
    for face in 0..crate::limits::PAGE_QUEUE_MAX as u64 {
        directory.release(PAGE, Face(face));
    }
    assert_eq!(wants(&mut directory, 2, 2, Read), [], "there is room again");
}

#[test]
fn what_no_host_says_is_refused_or_does_nothing() {
    let mut directory = Directory::new(8, HostId(0));
    let ticket = Ticket { slot: 0, number: 1 };
    let want = ToHome::Request { ticket, access: Read, has: None, firm: false };
    assert!(directory.handle(HostId(1), Page(8), want).is_err(), "beyond the extent");
    wants(&mut directory, 1, 7, Write);
    let version = Version::FIRST.next();
    let nonsense = [
        ToHome::WriteBack { version, keeps: true },
        ToHome::WriteBack { version: Version(77), keeps: false },
        ToHome::Done { ticket, version },
        ToHome::Done { ticket: Ticket { slot: 0, number: 7 }, version: Version(77) },
        ToHome::Ack { version },
        ToHome::Missing { version },
        ToHome::Abandoned { ticket },
        want,
    ];
    for message in nonsense {
        for host in [1, 2, 500] {
            let is_new = host != 1 && matches!(message, ToHome::Request { .. });
            if !is_new {
                assert_eq!(directory.handle(HostId(host), PAGE, message).unwrap(), Heard::Stale, "{host} {message:?}");
                assert_eq!((directory.poll(), directory.phase(PAGE)), (None, Phase::Granting));
            }
        }
    }
    let mut host = Station::new(1);
    assert!(host.touch(PAGE, Read).is_some());
    let ticket = Ticket { slot: SLOT, number: 1 };
    let grant =
        |access, version, has_bytes| ToHost::Grant { ticket, version, access, has_bytes, awaits: Hosts::NONE, firm: true };
    let given_back = HostOutput::Home { page: PAGE, message: ToHome::WriteBack { version, keeps: false }, bytes: Some(()) };
    assert_eq!(
        (host.hear(grant(Write, version, true)), host.state()),
        (vec![given_back], State::Fetching),
        "more than asked for"
    );
    assert_eq!(host.hear(grant(Read, version, true)).len(), 1);
    assert!(host.touch(PAGE, Write).is_some());
    assert_eq!((host.hear(grant(Write, version.next(), false)).len(), host.state()), (1, State::Owned));
    let invalidate = ToHost::Invalidate { version: version.next(), tell: None };
    let heard = host.rules.on_message(&mut host.place, PAGE, invalidate, None, &mut Vec::new());
    assert!(heard.is_err(), "it owns that");
}

#[test]
fn an_old_acknowledgement_does_not_undo_those_for_the_next_version() {
    let mut host = Station::new(1);
    assert!(host.touch(PAGE, Write).is_some());
    let (old, version) = (Version(1), Version(2));
    let ack = |from, version| ToHost::Ack { from: HostId(from), version };
    // The home vouches for a host that died after it had acknowledged an earlier write; this comes late.
    for message in [ack(0, version), ack(2, old), ack(3, version)] {
        assert_eq!(host.hear(message), []);
    }
    let mut awaits = Hosts::one(HostId(0));
    awaits.insert(HostId(3));
    let (ticket, version) = (Ticket { slot: SLOT, number: 1 }, version.next());
    let said = host.hear(ToHost::Grant { ticket, version, access: Write, has_bytes: true, awaits, firm: true });
    assert_eq!(said, [HostOutput::Home { page: PAGE, message: ToHome::Done { ticket, version }, bytes: None }]);
    assert_eq!(host.state(), State::Owned, "both have acknowledged");
}

#[test]
fn a_page_is_taken_from_the_programs_before_it_goes() {
    let mut host = Station::new(1);
    assert!(host.touch(PAGE, Write).is_some());
    let (ticket, version) = (Ticket { slot: SLOT, number: 1 }, Version(2));
    let granted = ToHost::Grant { ticket, version, access: Write, has_bytes: true, awaits: Hosts::NONE, firm: true };
    assert_eq!(host.hear(granted).len(), 1);
    // A thread begins to map it.
    assert_eq!(host.place.fault(PAGE, SLOT, Write), Ok(Fault::Map(Write)));
    let forward = |access| ToHost::Forward { era: version, to: HostId(2), ticket, access, hold_us: 0 };
    assert_eq!((host.hear(forward(Read)), host.state()), (vec![], State::TakingOwned));
    // What comes meanwhile waits; and that an owner evicts is no reason to take a page twice.
    let recall = ToHost::Recall { era: version.next(), keeps: false, hold_us: 0 };
    assert_eq!(host.hear(recall), []);
    assert_eq!(host.rules.evict(&mut host.place, PAGE), Ok(false));
    host.place.leave(PAGE, SLOT).unwrap();
    let mut outputs = Vec::new();
    assert_eq!(host.rules.turn(&mut host.place, &mut outputs), Ok(true));
    let copy = ToHost::Grant { ticket, version, access: Read, has_bytes: true, awaits: Hosts::NONE, firm: false };
    let kept = ToHome::WriteBack { version, keeps: true };
    let expected = [
        HostOutput::Host { to: HostId(2), page: PAGE, message: copy, bytes: Some(()) },
        HostOutput::Home { page: PAGE, message: kept, bytes: Some(()) },
    ];
    assert_eq!((outputs, host.state(), host.rules.is_taking()), (expected.to_vec(), State::Shared, false));
}

#[test]
fn an_owner_that_passed_the_page_on_says_so_and_one_that_evicted_it_does_not() {
    let mut pool = Pool::new(2);
    pool.touch(1, Write);
    let era = Version::FIRST.next();
    let forward = ToHost::Forward { era, to: HostId(0), ticket: Ticket { slot: SLOT, number: 9 }, access: Write, hold_us: 0 };
    assert_eq!(pool.hosts[1].hear(forward.clone()).len(), 1);
    assert_eq!(pool.hosts[1].place.frame(PAGE), None, "it went with the message");
    assert_eq!(pool.hosts[1].hear(forward), [], "an older one");
    let missing = HostOutput::Home { page: PAGE, message: ToHome::Missing { version: era }, bytes: None };
    assert_eq!(pool.hosts[1].hear(ToHost::Recall { era, keeps: true, hold_us: 0 }), [missing]);
    let mut pool = Pool::new(2);
    pool.touch(1, Write);
    pool.evict(1);
    assert_eq!(pool.hosts[1].hear(ToHost::Recall { era, keeps: true, hold_us: 0 }), [], "it is on its way");
}

#[test]
fn the_home_s_death_ends_what_is_asked_for_and_leaves_what_is_here() {
    let mut pool = Pool::new(2);
    pool.touch(1, Read);
    let host = &mut pool.hosts[1];
    assert!(host.touch(PAGE, Write).is_some());
    host.rules.on_home_lost(&mut host.place, 0);
    assert_eq!((host.touch(PAGE, Read), host.state()), (None, State::Shared));
    assert!(host.touch(Page(4), Read).is_some());
    host.rules.on_home_lost(&mut host.place, 0);
    assert_eq!(host.place.look(Page(4)).state(), Ok(State::Absent));
}

#[test]
fn what_a_dead_thread_claimed_is_asked_for_in_its_name_and_its_slot_is_kept() {
    for access in [Read, Write] {
        let mut host = Station::new(1);
        let Some(ToHome::Request { ticket, .. }) = host.touch(PAGE, access) else { panic!("it is not here") };
        let mut outputs = Vec::new();
        host.rules.part(&mut host.place, SLOT..SLOT + 1, true, &mut outputs).unwrap();
        let [HostOutput::Home { message: ToHome::Request { ticket: again, .. }, .. }] = outputs[..] else {
            panic!("{outputs:?}")
        };
        assert_eq!(again.number == ticket.number, access == Write, "one to write is known again; one to read is another");
        host.rules.settle_dead_slots(&host.place);
        assert!(!host.rules.is_free(SLOT..SLOT + 1), "its claim is open");
        let (version, firm) = (Version(2), access == Write);
        let said = host.hear(ToHost::Grant { ticket: again, version, access, has_bytes: true, awaits: Hosts::NONE, firm });
        assert_eq!(said.len(), usize::from(firm));
        host.rules.settle_dead_slots(&host.place);
        assert!(host.rules.is_free(SLOT..SLOT + 1));
        assert_eq!(host.state(), if firm { State::Owned } else { State::Shared });
    }
}

/// A node hears late that a thread's link broke, when the thread has its page, and fills the frame of another. Then the thread dies. Its fill
/// stayed open once, and the page was lost when the host left.
#[test]
fn a_node_that_hears_late_of_a_broken_link_leaves_the_thread_its_slot() {
    let mut host = Station::new(1);
    let Some(ToHome::Request { ticket, .. }) = host.touch(PAGE, Write) else { panic!("it is not here") };
    let version = Version(2);
    assert_eq!(host.place.change(PAGE, |word| word.fill(SLOT, version, Write)), Ok(Fill::Go));
    let mut outputs = Vec::new();
    host.rules.take_over(&mut host.place, SLOT..SLOT + 1, &mut outputs).unwrap();
    assert_eq!((&outputs[..], host.state()), (&[][..], State::FillingWrite), "it lives, and is at it");
    let grant = ToHost::Grant { ticket, version, access: Write, has_bytes: true, awaits: Hosts::NONE, firm: true };
    assert_eq!(host.hear(grant), [], "its home sees the end of its link");
    host.rules.part(&mut host.place, SLOT..SLOT + 1, true, &mut outputs).unwrap();
    assert!(host.rules.turn(&mut host.place, &mut outputs).unwrap());
    let done = HostOutput::Home { page: PAGE, message: ToHome::Done { ticket, version }, bytes: None };
    assert!(outputs.contains(&done) && host.state() == State::Owned, "{outputs:?}");
}

/// A host that has been granted the page to write, as version 2, with or without bytes. The grant comes once more later.
fn granted(has_bytes: bool) -> (Station, ToHost) {
    let mut host = Station::new(if has_bytes { 1 } else { 0 });
    assert!(host.touch(PAGE, Write).is_some());
    let (ticket, version) = (Ticket { slot: SLOT, number: 1 }, Version(2));
    let grant = ToHost::Grant { ticket, version, access: Write, has_bytes, awaits: Hosts::NONE, firm: true };
    assert_eq!((host.hear(grant.clone()).len(), host.state()), (1, State::Owned));
    (host, grant)
}

#[test]
fn a_grant_that_comes_twice_makes_nobody_owner_of_what_others_read() {
    for has_bytes in [true, false] {
        let (mut host, again) = granted(has_bytes);
        let ticket = Ticket { slot: 9, number: 9 };
        let forward = ToHost::Forward { era: Version(2), to: HostId(2), ticket, access: Read, hold_us: 0 };
        assert_eq!((host.hear(forward).len(), host.state()), (2, State::Shared));
        assert_eq!((host.hear(again), host.state()), (vec![], State::Shared));
    }
}

#[test]
fn a_grant_that_comes_twice_sends_no_older_bytes_home() {
    let (mut host, again) = granted(true);
    let mut outputs = Vec::new();
    assert!(host.rules.evict(&mut host.place, PAGE).unwrap() && host.rules.turn(&mut host.place, &mut outputs).unwrap());
    // What was stored is on its way home, and the page is asked for again.
    assert_eq!(outputs.len(), 1);
    assert!(host.touch(PAGE, Read).is_some());
    assert_eq!((host.hear(again), host.state()), (vec![], State::Fetching));
}

#[test]
fn a_grant_that_comes_twice_does_not_end_the_next_one_s_waiting() {
    let (mut host, again) = granted(true);
    assert!(host.rules.evict(&mut host.place, PAGE).unwrap() && host.rules.turn(&mut host.place, &mut Vec::new()).unwrap());
    assert!(host.touch(PAGE, Write).is_some());
    let (ticket, version, awaits) = (Ticket { slot: SLOT, number: 2 }, Version(3), Hosts::one(HostId(0)));
    let next = ToHost::Grant { ticket, version, access: Write, has_bytes: true, awaits, firm: true };
    assert_eq!(host.hear(next), []);
    assert_eq!((host.hear(again), host.state()), (vec![], State::FetchingWrite));
    let last = ToHost::Ack { from: HostId(0), version: version.prev() };
    assert_eq!((host.hear(last).len(), host.state()), (1, State::Owned));
}

#[test]
fn a_refusal_that_went_with_its_thread_is_given_to_who_asks_again() {
    let mut directory = Directory::new(8, HostId(0));
    wants(&mut directory, 1, 1, Write);
    directory.on_host_lost(HostId(1));
    let refused = ToHost::Refused { ticket: Ticket { slot: 0, number: 1 }, reason: Refusal::Lost };
    for _ in 0..2 {
        assert_eq!(wants(&mut directory, 2, 1, Write), [Output::Send(HostId(2), PAGE, refused.clone())]);
    }
}

#[test]
fn a_lost_page_is_refused_and_others_stay() {
    let mut directory = Directory::new(8, HostId(0));
    wants(&mut directory, 1, 1, Write);
    directory.on_host_lost(HostId(1));
    assert_eq!(directory.phase(PAGE), Phase::Lost);
    let refused = ToHost::Refused { ticket: Ticket { slot: 0, number: 1 }, reason: Refusal::Lost };
    assert_eq!(wants(&mut directory, 2, 1, Read), [Output::Send(HostId(2), PAGE, refused)]);
    directory.recall(PAGE, Face(5), Read);
    assert_eq!(directory.poll(), Some(Output::Failed(PAGE, Face(5), Refusal::Lost)));
    assert_eq!(directory.phase(Page(2)), Phase::Home);
}
