//! Programs that add to words of regions with copies and read them, and try again until they have an answer.
//!
//! An addition is one write of two words: the word itself, and a count of the program's additions. It answers with the value before it, and
//! counts once. A program opens its region by any node of the pool, and sends its requests to the home that it is told of.

use super::commands::LinkCommand;
use super::process::{LinkUse, Opener, ProcessLife, address};
use super::served_link::{CommandLink, LinkStep};
use super::{Cluster, Defect, Event, Terms};
use crate::check::{Check, check};
use hanare_home::{Bytes, Memory};
use hanare_protocol::attributes::Attributes;
use hanare_protocol::coordinator::{AskKey, RegionRecord};
use hanare_protocol::copies::{Comparison, DigestCall, HoldersState};
use hanare_protocol::element::{Element, Operator};
use hanare_protocol::id::{ClientId, Gid, Grant, NodeId, Rights, Slot, User};
use hanare_protocol::limits::STAGE_LEN;
use hanare_protocol::placement::Placement;
use hanare_protocol::shape::{Shape, Strided};
use hanare_protocol::usage::{FOLLOWS, USERS};
use hanare_protocol::wire::command::{Op, Update};
use hanare_protocol::wire::control::{Answer, Changes, Existing, RegionView, Request, decode};
use hanare_protocol::wire::copies::{ExtentCall, ExtentWrite};
use hanare_protocol::wire::head::encode_call;
use hanare_protocol::{Error, Result};
use std::collections::BTreeSet;

/// Regions of the programs, of one extent each; and their programs.
pub(super) const REGION_COUNT: usize = 4;
pub(super) const PROGRAM_COUNT: usize = REGION_COUNT * 3;
/// WordPrograms of a region.
const WORD_COUNT: usize = 8;
/// Bytes of a region: three ranges when a copy is made, the last one short.
pub(super) const REGION_LEN: u64 = 2 * STAGE_LEN as u64 + 4096;
/// Bytes from a word to the next: words lie in all ranges but the last.
const WORD_STEP: u64 = 2 * STAGE_LEN as u64 / WORD_COUNT as u64;
/// Longest time until a program asks again, at the home of that moment.
const PATIENCE_MS: u64 = 1_500;
/// The user of the first region; each has its own.
const UID: u32 = 500;

/// All programs, and what they have seen.
#[derive(Debug, Default)]
pub(crate) struct WordPrograms {
    programs: Vec<WordProgram>,
    /// Additions that were asked for, and what was seen, of each word.
    asked: [[u64; WORD_COUNT]; REGION_COUNT],
    seen: [[u64; WORD_COUNT]; REGION_COUNT],
    results: BTreeSet<(usize, usize, u64)>,
    /// Links that were made: a request comes on one of its own.
    links: u64,
}

/// A program.
#[derive(Clone, Debug, Default)]
struct WordProgram {
    /// The home as it knows it.
    view: Option<RegionView>,
    /// Number of its request of today, or of its last.
    number: u64,
    /// Additions that it has asked for: the number of its call.
    additions: u64,
    /// True if its request was sent before.
    has_asked: bool,
    request: Option<WordRequest>,
}

#[derive(Clone, Copy, Debug)]
struct WordRequest {
    word: usize,
    is_addition: bool,
    /// The least that the answer may be: it was seen before the request.
    floor: u64,
}

/// A request on its way to a node, by a view of the region.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WordAsk {
    program: usize,
    number: u64,
    at: ProcessLife,
    slot: Slot,
    grant: Grant,
    /// The node of its program's host, where regions follow their users.
    by: Option<NodeId>,
}

impl WordAsk {
    /// The host of the node.
    pub fn host(&self) -> usize {
        self.at.0
    }
}

fn region_of(program: usize) -> usize {
    program % REGION_COUNT
}

pub(super) fn region_name(region: usize) -> String {
    format!("words{region}")
}

/// The user of a region.
pub(super) fn user_of_region(region: usize) -> u32 {
    UID + region as u32
}

fn copies_of(region: usize) -> u8 {
    2 + (region % 2) as u8
}

/// True for the region that is made without copies, and gets them later.
fn begins_alone(region: usize) -> bool {
    region + 1 == REGION_COUNT
}

pub(super) fn word_at(word: usize) -> u64 {
    word as u64 * WORD_STEP
}

fn count_at(program: usize) -> u64 {
    const { assert!(2 * STAGE_LEN + 8 * PROGRAM_COUNT <= REGION_LEN as usize, "counts lie in the last range") };
    2 * STAGE_LEN as u64 + 8 * program as u64
}

/// Adds one to a word, and to the count of a program's additions.
fn addition(at: (Slot, Grant), (word, program): (usize, usize), call: u64) -> LinkCommand<'static> {
    let op = Op::Fetch(Update { operator: Operator::Add, element: Element::U64, is_same: true });
    let (first, stride) = (word_at(word), count_at(program) - word_at(word));
    let shape = Strided { offset: first, block: 8, count: 2, stride }.into();
    LinkCommand { op, at, shape, operand: 1u64.to_le_bytes().to_vec(), call }
}

/// A node that was asked, and the user and the program that asked.
type AskedNode = (usize, (u32, ClientId));

impl Cluster {
    /// Programs begin.
    pub(super) fn begin_words(&mut self) {
        self.words.programs = vec![WordProgram::default(); PROGRAM_COUNT];
        (0..PROGRAM_COUNT).for_each(|program| self.at(1_000, Event::Word { program }));
    }

    /// A program has its turn.
    pub(super) fn on_word(&mut self, program: usize) -> Check {
        let pause_ms = self.dice.between(PATIENCE_MS / 3, PATIENCE_MS);
        self.at(pause_ms, Event::Word { program });
        self.ask(program)
    }

    /// A program asks for the next thing, or asks again.
    fn ask(&mut self, program: usize) -> Check {
        let region = region_of(program);
        if self.words.programs[program].view.is_none() || self.words.programs[program].request.is_some() {
            self.open_words(program)?;
        }
        if self.words.programs[program].request.is_some() {
            self.words.programs[program].has_asked = true;
        } else if !self.is_rough || self.words.programs[program].view.is_none() {
            return Ok(());
        } else {
            let (word, is_addition) = (self.dice.below(WORD_COUNT as u64) as usize, self.dice.chance(6_000));
            self.words.asked[region][word] += u64::from(is_addition);
            let floor = self.words.seen[region][word];
            let this = &mut self.words.programs[program];
            (this.number, this.additions) = (this.number + 1, this.additions + u64::from(is_addition));
            (this.request, this.has_asked) = (Some(WordRequest { word, is_addition, floor }), false);
        }
        let this = &self.words.programs[program];
        let Some(view) = &this.view else { return Ok(()) };
        let (Some(home), number) = (view.layout.extents().next(), this.number) else { return Ok(()) };
        let (slot, grant) = (home.slot, view.grants[0]);
        if let Some(at) = self.home_of_view(view) {
            let (after, by) = (self.delay_ms(), self.user_of(region));
            self.at(after, Event::Asked(WordAsk { program, number, at, slot, grant, by }));
        }
        Ok(())
    }

    /// A program opens its region, or creates it. One that has no copies gets some at times.
    fn open_words(&mut self, program: usize) -> Check {
        let Some((node, by)) = self.open_again(program)? else { return Ok(()) };
        let is_alone = self.words.programs[program].view.as_ref().is_some_and(|view| view.copies == 1);
        // A region that follows its users moves without copies, too.
        if !is_alone || self.followers.is_some() || !self.dice.chance(1_000) {
            return Ok(());
        }
        let region = region_of(program);
        let changes = Changes { copies: Some(copies_of(region)), ..Changes::default() };
        self.ask_region(node, by, Request::Alter { name: region_name(region), changes }, Opener::Words(program))
    }

    /// A program opens its region by a node that runs, or creates it. Returns that node, and who asks.
    pub(super) fn open_again(&mut self, program: usize) -> std::result::Result<Option<AskedNode>, String> {
        let runs = |node: &usize| self.hosts[*node].process.is_some() && !self.hosts[*node].is_stopped;
        let nodes: Vec<usize> = (0..self.hosts.len()).filter(runs).collect();
        if nodes.is_empty() {
            return Ok(None);
        }
        let (node, region) = (self.dice.pick(&nodes), region_of(program));
        let by = (user_of_region(region), ClientId(1 << 48 | program as u64));
        self.ask_region(node, by, self.word_request(region), Opener::Words(program))?;
        Ok(Some((node, by)))
    }

    /// The request for a region of words, which creates it where there is none.
    pub(super) fn word_request(&self, region: usize) -> Request {
        let follows = self.followers.is_some();
        Request::Create {
            name: region_name(region),
            len: REGION_LEN,
            placement: Placement::Local,
            copies: if begins_alone(region) { 1 } else { copies_of(region) },
            mode: 0o600,
            attributes: if follows { Attributes::from_iter([(FOLLOWS, USERS)]) } else { Attributes::default() },
            existing: Existing::Attach,
        }
    }

    /// The process of the first extent's node, by a view of its region, while that node runs.
    pub(super) fn home_of_view(&self, view: &RegionView) -> Option<ProcessLife> {
        let home = view.layout.extents().next()?.node;
        let named = &view.nodes.iter().find(|node| node.node == home)?.address;
        let host = (0..self.hosts.len()).find(|host| address(*host) == *named)?;
        Some((host, self.hosts[host].process.as_ref()?.life))
    }

    /// The region of a program of words, as it knows it.
    pub(super) fn word_view(&self, program: usize) -> Option<&RegionView> {
        self.words.programs[program].view.as_ref()
    }

    /// A program asks a node for its region.
    pub(super) fn ask_region(&mut self, node: usize, (uid, client): (u32, ClientId), what: Request, by: Opener) -> Check {
        let now_ms = self.now_ms;
        let Some(process) = self.hosts[node].process.as_mut() else { return Ok(()) };
        let request = process.member.ask(now_ms, User { uid, gid: uid }, client, what.clone());
        process.opens.insert(request, by);
        let key = AskKey { incarnation: process.incarnation, request };
        self.checks.on_asked(key, uid, &what, now_ms);
        self.drain_node(node)
    }

    /// A program has an answer about its region.
    pub(super) fn on_opened(&mut self, program: usize, result: Result<Answer>) -> Check {
        match result {
            Ok(Answer::Region(view)) => self.words.programs[program].view = Some(view),
            Ok(_) => self.count("words that are to have copies"),
            Err(Error::RegionLost { region, node }) => {
                return Err(format!("'{region}' is lost with {node}, and one of its holders was well"));
            }
            _ => self.count("words that could not be opened"),
        }
        Ok(())
    }

    /// A request comes to a node.
    pub(super) fn on_asked(&mut self, ask: WordAsk) -> Check {
        let WordAsk { program, number, at, slot, grant, by } = ask;
        let now_ms = self.now_ms;
        let ignores_lease = self.has(Defect::ForgetLease);
        let Some(process) = self.process(at) else { return Ok(()) };
        process.lender.has_lease = ignores_lease || process.member.homes_until_ms() > now_ms;
        let opened = process.lender.open(slot, grant, Rights::Write);
        if let Ok(extent) = &opened {
            self.on_used((at, Bytes::gid(extent), slot), by);
        }
        let this = &self.words.programs[program];
        let Some(request) = this.request.filter(|_| this.number == number) else { return Ok(()) };
        let Ok(extent) = opened else {
            self.count("requests that found no home");
            return Ok(());
        };
        let mut link = CommandLink::of_client(program as u64)?;
        if !request.is_addition {
            let shape = Shape::contiguous(word_at(request.word), 8);
            let get = LinkCommand { op: Op::Get, at: (slot, grant), shape, operand: Vec::new(), call: 0 };
            link.takes(number, &get, Ok(extent.clone()))?;
            self.go_on_by(at, program, link)?;
            if !extent.is_copied() || !self.dice.chance(5_000) {
                return Ok(());
            }
            let call = ExtentCall::Digests(self.any_digests());
            return self.write_extent(at, (Bytes::gid(&extent), slot), ExtentWrite::call(call), LinkUse::Compares);
        }
        let (call_number, is_repeat) = (this.additions, this.has_asked);
        let is_done = extent.word(count_at(program)) >= call_number;
        if is_done {
            self.count("additions that were done before");
        }
        let call = if self.has(Defect::AddTwice) { 0 } else { encode_call(0, call_number, is_repeat) };
        let addition = addition((slot, grant), (request.word, program), call);
        let writes_directly = self.has(Defect::WriteDirectly);
        if !extent.is_copied() || writes_directly {
            // An answer is not lost while its node lives.
            if is_done {
                return Ok(());
            }
            self.count("additions without copies");
        }
        link.takes(number, &addition, Ok(extent.clone()))?;
        let step = link.step(now_ms)?;
        if let LinkStep::Write(_, write) = &step
            && (writes_directly || self.has(Defect::ApplyFirst))
        {
            let early = if writes_directly { extent.apply(write) } else { Ok(extent.apply_early(write)) };
            self.answer_word(program, number, old_of(&early.map_err(|error| error.to_string())?));
            if writes_directly {
                return Ok(());
            }
        }
        self.do_step(at, program, link, step)
    }

    /// A link does what is left of its message.
    fn go_on_by(&mut self, at: ProcessLife, program: usize, mut link: CommandLink) -> Check {
        let step = link.step(self.now_ms)?;
        self.do_step(at, program, link, step)
    }

    /// A write of a link goes to the home, and an answer to the program.
    fn do_step(&mut self, at: ProcessLife, program: usize, link: CommandLink, step: LinkStep) -> Check {
        match step {
            LinkStep::Write(place, write) => self.write_extent(at, place, write, LinkUse::Adds { program, link: Box::new(link) }),
            LinkStep::Answer(number, Ok(bytes)) => {
                self.answer_word(program, number, old_of(&bytes));
                Ok(())
            }
            other => Err(format!("a command of program {program} has {other:?}")),
        }
    }

    /// A home gets a write, or a call in the order of writes.
    pub(super) fn write_extent(&mut self, at: ProcessLife, place: (Gid, Slot), write: ExtentWrite, usage: LinkUse) -> Check {
        self.words.links += 1;
        let (link, now_ms) = (self.words.links, self.now_ms);
        let Some(process) = self.process(at) else { return Ok(()) };
        process.writes.insert(link, usage);
        let outputs = process.served.write(now_ms, (link, place), write, &process.lender);
        self.take(at, outputs)?;
        self.drain_node(at.0)
    }

    /// Digests of some pages.
    fn any_digests(&mut self) -> DigestCall {
        let range = self.dice.below(REGION_LEN.div_ceil(STAGE_LEN as u64));
        let offset = range * STAGE_LEN as u64;
        let seed = [self.dice.below(u64::MAX), self.dice.below(u64::MAX)].map(u64::to_le_bytes);
        let seed = std::array::from_fn(|at| seed[at / 8][at % 8]);
        DigestCall { offset, len: (REGION_LEN - offset).min(STAGE_LEN as u64), seed, drops: false }
    }

    /// A write was done by all copies and the home, or was not. Copies never differ from their home.
    pub(super) fn on_applied(&mut self, at: ProcessLife, link: u64, outcome: Result<Vec<u8>>) -> Check {
        let asked = self.process(at).and_then(|process| process.writes.remove(&link));
        let (Some(usage), Ok(bytes)) = (asked, outcome) else { return Ok(()) };
        match usage {
            LinkUse::Adds { .. } if self.has(Defect::ApplyFirst) => {}
            LinkUse::Adds { program, mut link } => {
                link.applied(Ok(bytes));
                self.go_on_by(at, program, *link)?;
            }
            LinkUse::Accesses(client, mut link) => {
                link.applied(Ok(bytes));
                self.go_on_accessing(at, client, *link)?;
            }
            LinkUse::Compares => {
                let found: Comparison = decode(&bytes).map_err(|malformed| malformed.0.to_owned())?;
                check(found.pages.is_empty(), || format!("copies differ from their home at {at:?}: {found:?}"))?;
                self.count(if found.compared.is_empty() { "comparisons without copies" } else { "comparisons of copies" });
            }
        }
        Ok(())
    }

    /// A home answers.
    fn answer_word(&mut self, program: usize, number: u64, value: u64) {
        let after = self.delay_ms();
        self.at(after, Event::Answered { program, number, value });
    }

    pub(super) fn on_word_answered(&mut self, program: usize, number: u64, value: u64) -> Check {
        let region = region_of(program);
        let this = &mut self.words.programs[program];
        let Some(request) = this.request.take_if(|_| this.number == number) else { return Ok(()) };
        let WordRequest { word, is_addition, floor } = request;
        let asked = self.words.asked[region][word];
        check(value >= floor, || format!("word {word} of region {region} is {value} where {floor} was seen"))?;
        check(value <= asked, || format!("word {word} of region {region} is {value}, and {asked} were added"))?;
        self.count(if is_addition { "additions" } else { "reads" });
        if is_addition {
            check(self.words.results.insert((region, word, value)), || {
                format!("two additions to word {word} of region {region} saw {value}")
            })?;
        }
        let seen = &mut self.words.seen[region][word];
        *seen = (*seen).max(value + u64::from(is_addition));
        // The next request goes out at once in half of all cases.
        if self.dice.chance(5_000) { self.ask(program) } else { Ok(()) }
    }

    /// The regions of the programs, as a coordinator has them.
    pub(super) fn word_regions(coordinator: &hanare_protocol::coordinator::Coordinator) -> impl Iterator<Item = &RegionRecord> {
        coordinator.regions().filter(|region| (0..REGION_COUNT).any(|number| region.name == region_name(number)))
    }

    /// At rest each program has its answer. Each region has all its copies, and all have the words that were added.
    pub(super) fn judge_words(&self) -> Check {
        if self.terms != Terms::Budget {
            return Ok(());
        }
        let home = self.home().ok_or("the coordinator is not back")?;
        for record in Self::word_regions(&home.coordinator) {
            let mut moving = home.coordinator.holders().filter(|(_, _, state)| *state != HoldersState::Steady);
            let moving = moving.find(|(extent, ..)| extent.gid == record.gid);
            check(moving.is_none(), || format!("'{}' has no home: {moving:?}", record.name))?;
        }
        let waits = self.words.programs.iter().position(|program| program.request.is_some() || program.view.is_none());
        check(waits.is_none(), || {
            format!("program {waits:?} waits for ever: {:?}", self.words.programs[waits.unwrap_or_default()])
        })?;
        for (region, record) in Self::word_regions(&home.coordinator).map(|record| (number_of(record), record)) {
            let at = record.layout.extents().next().ok_or_else(|| format!("region {region} has no extents"))?;
            let copies = record.holders.first().map_or(&[][..], |known| &known.copies);
            check(copies.len() + 1 == usize::from(record.copies), || format!("region {region} has too few copies: {copies:?}"))?;
            let mut bytes = BTreeSet::new();
            for holder in std::iter::once(at).chain(copies) {
                let extent = self.holder(holder.node, record.gid, holder.slot);
                let extent = extent.ok_or_else(|| format!("{} has nothing of region {region}", holder.node))?;
                let words: [u64; WORD_COUNT] = std::array::from_fn(|word| extent.word(word_at(word)));
                check(words == self.words.asked[region], || {
                    format!("region {region} has {words:?} on {}, and {:?} were added", holder.node, self.words.asked[region])
                })?;
                bytes.insert(extent.bytes());
            }
            check(bytes.len() == 1, || format!("region {region} has not the same bytes on all its nodes"))?;
        }
        Ok(())
    }
}

pub(super) fn number_of(region: &RegionRecord) -> usize {
    (0..REGION_COUNT).find(|number| region.name == region_name(*number)).unwrap_or_default()
}

/// The first element before a write.
fn old_of(olds: &[u8]) -> u64 {
    olds.first_chunk().map_or(0, |old| u64::from_le_bytes(*old))
}
