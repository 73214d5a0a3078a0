//! What each kind of access costs, in messages, pages sent, and messages one after the other; and some situations by name.

use super::directory::{Output, Phase};
use super::host::Output as HostOutput;
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

struct Pool {
    directory: Directory,
    hosts: Vec<Copies>,
    letters: VecDeque<(u16, To, u32)>,
    cost: Cost,
}

impl Pool {
    fn new(hosts: u16) -> Pool {
        Pool {
            directory: Directory::new(8, HostId(0)),
            hosts: (0..hosts).map(|host| Copies::new(HostId(host))).collect(),
            letters: VecDeque::new(),
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
        self.letters.push_back((from, to, hops + u32::from(!is_local)));
    }

    fn drain(&mut self, host: u16, hops: u32) {
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
        while let Some(output) = self.hosts[usize::from(host)].poll() {
            match output {
                HostOutput::ToHome(_, message) => {
                    let has_bytes = message.has_bytes() && host != 0;
                    self.post(host, To::Home(message), has_bytes, hops);
                }
                HostOutput::ToHost(to, _, message) => {
                    let has_bytes = message.has_bytes();
                    self.post(host, To::Host(to, message), has_bytes, hops);
                }
                HostOutput::Installed(..) => self.cost.hops = hops,
                HostOutput::Failed(..) => panic!("nothing is lost"),
            }
        }
    }

    fn run(&mut self) {
        while let Some((from, to, hops)) = self.letters.pop_front() {
            match to {
                To::Home(message) => {
                    self.directory.handle(HostId(from), PAGE, message).unwrap();
                    self.drain(0, hops);
                }
                To::Host(host, message) => {
                    self.hosts[usize::from(host.0)].handle(PAGE, message).unwrap();
                    self.drain(host.0, hops);
                }
            }
        }
    }

    fn touch(&mut self, host: u16, access: Access) -> Cost {
        self.cost = Cost::default();
        self.hosts[usize::from(host)].touch(PAGE, access, 0);
        self.drain(host, 0);
        self.run();
        assert_eq!(self.hosts[usize::from(host)].touch(PAGE, access, 0), Touch::Have);
        self.cost
    }

    fn evict(&mut self, host: u16) -> Cost {
        self.cost = Cost::default();
        assert!(self.hosts[usize::from(host)].evict(PAGE));
        self.drain(host, 0);
        self.run();
        self.cost
    }

    fn face(&mut self, access: Access) -> Cost {
        self.cost = Cost::default();
        self.directory.recall(PAGE, Face(1), access);
        self.drain(0, 0);
        self.run();
        self.directory.release(PAGE, Face(1));
        self.drain(0, 0);
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
    let want = ToHome::Want { ticket: Ticket { seat: 0, number }, access, has: None, firm: false };
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
        let ticket = Ticket { seat: 0, number: 1 };
        directory.handle(HostId(host), PAGE, ToHome::Done { ticket, version }).unwrap();
        let next = ToHost::Forward { era: version, to: HostId(host + 1), ticket, access: Write };
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
    let refused = ToHost::Refused { ticket: Ticket { seat: 0, number: 1 }, reason: Refusal::Full };
    assert_eq!(wants(&mut directory, 2, 1, Read), [Output::Send(HostId(2), PAGE, refused)]);
    for face in 0..crate::limits::PAGE_QUEUE_MAX as u64 {
        directory.release(PAGE, Face(face));
    }
    assert_eq!(wants(&mut directory, 2, 2, Read), [], "there is room again");
}

#[test]
fn what_no_host_says_is_refused_or_does_nothing() {
    let mut directory = Directory::new(8, HostId(0));
    let ticket = Ticket { seat: 0, number: 1 };
    let want = ToHome::Want { ticket, access: Read, has: None, firm: false };
    assert!(directory.handle(HostId(1), Page(8), want).is_err(), "beyond the extent");
    wants(&mut directory, 1, 7, Write);
    let version = Version::FIRST.next();
    let nonsense = [
        ToHome::WriteBack { version, keeps: true },
        ToHome::WriteBack { version: Version(77), keeps: false },
        ToHome::Done { ticket, version },
        ToHome::Done { ticket: Ticket { seat: 0, number: 7 }, version: Version(77) },
        ToHome::Ack { version },
        ToHome::Missing { version },
        ToHome::Abandoned { ticket },
        want,
    ];
    for message in nonsense {
        for host in [1, 2, 500] {
            let is_new = host != 1 && matches!(message, ToHome::Want { .. });
            if !is_new {
                assert_eq!(directory.handle(HostId(host), PAGE, message).unwrap(), Heard::Stale, "{host} {message:?}");
                assert_eq!((directory.poll(), directory.phase(PAGE)), (None, Phase::Granting));
            }
        }
    }
    let mut copies = Copies::new(HostId(1));
    assert_eq!(copies.touch(PAGE, Read, 0), Touch::Asked);
    let grant = |access| ToHost::Grant { ticket, version, access, has_bytes: true, awaits: Hosts::NONE, firm: true };
    assert!(copies.handle(PAGE, grant(Write)).is_err(), "more than it asked for");
    copies.handle(PAGE, grant(Read)).unwrap();
    assert_eq!(copies.touch(PAGE, Write, 0), Touch::Asked);
    let ticket = Ticket { seat: 0, number: 2 };
    let version = version.next();
    copies
        .handle(PAGE, ToHost::Grant { ticket, version, access: Write, has_bytes: false, awaits: Hosts::NONE, firm: true })
        .unwrap();
    assert!(copies.handle(PAGE, ToHost::Invalidate { version, tell: None }).is_err(), "it owns that");
}

#[test]
fn an_old_acknowledgement_does_not_undo_those_for_the_next_version() {
    let mut copies = Copies::new(HostId(1));
    copies.touch(PAGE, Write, 0);
    let (old, version) = (Version(1), Version(2));
    let ack = |from, version| ToHost::Ack { from: HostId(from), version };
    // The home vouches for a host that died after it had acknowledged an earlier write; this comes late.
    for message in [ack(0, version), ack(2, old), ack(3, version)] {
        copies.handle(PAGE, message).unwrap();
    }
    let mut awaits = Hosts::one(HostId(0));
    awaits.insert(HostId(3));
    let (ticket, version) = (Ticket { seat: 0, number: 1 }, version.next());
    copies.handle(PAGE, ToHost::Grant { ticket, version, access: Write, has_bytes: true, awaits, firm: true }).unwrap();
    assert_eq!(copies.phase(PAGE), host::Phase::Owned, "both have acknowledged");
}

#[test]
fn a_page_is_taken_from_the_programs_before_it_goes() {
    let mut pool = Pool::new(2);
    let host = |pool: &Pool, message: &ToHost| pool.hosts[1].take(PAGE, message);
    let (version, ticket) = (Version::FIRST, Ticket { seat: 0, number: 1 });
    let invalidate = ToHost::Invalidate { version, tell: None };
    assert_eq!(host(&pool, &invalidate), None, "it is not here");
    pool.touch(1, Read);
    assert_eq!(host(&pool, &invalidate), Some(Take::Drop));
    pool.touch(1, Write);
    let era = version.next();
    let forward = |era, access| ToHost::Forward { era, to: HostId(0), ticket, access };
    assert_eq!(host(&pool, &forward(era, Read)), Some(Take::Protect));
    assert_eq!(host(&pool, &forward(era, Write)), Some(Take::Drop));
    assert_eq!(host(&pool, &forward(version, Write)), None, "an older one");
    assert_eq!(host(&pool, &ToHost::Recall { era, keeps: true }), Some(Take::Protect));
    assert_eq!(host(&pool, &ToHost::Recall { era, keeps: false }), Some(Take::Drop));
}

#[test]
fn the_home_s_death_ends_what_is_asked_for_and_leaves_what_is_here() {
    let mut pool = Pool::new(2);
    pool.touch(1, Read);
    pool.hosts[1].touch(PAGE, Write, 0);
    pool.hosts[1].touch(Page(4), Read, 1);
    while pool.hosts[1].poll().is_some() {}
    pool.hosts[1].on_home_lost();
    let told: Vec<HostOutput> = std::iter::from_fn(|| pool.hosts[1].poll()).collect();
    assert_eq!(told, [HostOutput::Failed(PAGE, Refusal::Lost), HostOutput::Failed(Page(4), Refusal::Lost)]);
    assert_eq!(pool.hosts[1].touch(PAGE, Read, 0), Touch::Have);
}

#[test]
fn a_lost_page_is_refused_and_others_stay() {
    let mut directory = Directory::new(8, HostId(0));
    wants(&mut directory, 1, 1, Write);
    directory.on_host_lost(HostId(1));
    assert_eq!(directory.phase(PAGE), Phase::Lost);
    let refused = ToHost::Refused { ticket: Ticket { seat: 0, number: 1 }, reason: Refusal::Lost };
    assert_eq!(wants(&mut directory, 2, 1, Read), [Output::Send(HostId(2), PAGE, refused)]);
    directory.recall(PAGE, Face(5), Read);
    assert_eq!(directory.poll(), Some(Output::Failed(PAGE, Face(5), Refusal::Lost)));
    assert_eq!(directory.phase(Page(2)), Phase::Home);
}
