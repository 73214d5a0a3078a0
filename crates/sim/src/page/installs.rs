//! A thread's request to a home over a link of its own. The steps by which the thread takes the reply in are those of programs:
//! [`InstallSteps`].

use super::{Defect, Event, Inside, Life, PageWorld};
use crate::check::{Check, check};
use crate::links::Link;
use hanare_home::{Input, PageBody, PageBytes, PageInput, PageReply, VectorPages};
use hanare_protocol::id::{ClientId, Gid};
use hanare_protocol::page::install_steps::{Act, End, InstallSteps, Ruling};
use hanare_protocol::page::word::{Installed, PageWord};
use hanare_protocol::page::{Access, HostMemory, Page, Ticket, Version};
use hanare_protocol::wire::page::{Granted, Outcome, PageRequest, Settled};
use std::ops::Range;

/// A link breaks with one of so many messages that a network without connections would lose.
const LOSSES_A_BREAK: u64 = 5;

/// A record of a reply, and the page that comes along.
pub(super) type PageAnswer = (Granted, Option<PageBytes>);

/// A thread's link to a home.
pub(super) struct ThreadLink {
    pub link: Link,
    home: Life,
    /// The thread: its life, program and number.
    of: (Life, u64, usize),
}

/// A page that a thread's slot claimed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Claim {
    pub page: Page,
    pub slot: u16,
    /// The number of its request.
    pub number: u32,
    pub access: Access,
    pub has: Option<Version>,
    pub firm: bool,
}

/// A thread's state.
#[derive(Default)]
pub(super) enum ThreadWork {
    #[default]
    Nothing,
    /// Waits for the reply to a message.
    Asked(Vec<Claim>),
    /// Takes in the reply, and is at one of the records.
    Installs(Install),
    /// Waits until its node has brought what it claimed.
    Waits(Vec<Claim>),
}

impl ThreadWork {
    /// The pages that it is about.
    pub fn claims(&self) -> Vec<Claim> {
        match self {
            ThreadWork::Nothing => Vec::new(),
            ThreadWork::Asked(claims) | ThreadWork::Waits(claims) => claims.clone(),
            ThreadWork::Installs(install) => install.records.iter().map(|record| record.claim).collect(),
        }
    }
}

/// A reply that is taken in.
pub(super) struct Install {
    /// Differs for each.
    number: u64,
    records: Vec<Record>,
    at: usize,
}

struct Record {
    claim: Claim,
    granted: Granted,
    bytes: Option<PageBytes>,
    steps: InstallSteps,
}

impl Record {
    fn new(claim: Claim, (granted, bytes): PageAnswer) -> Record {
        let steps = InstallSteps::new(match granted.outcome {
            Outcome::Read | Outcome::Write => Ruling::Granted { has_bytes: granted.has_bytes, firm: granted.firm },
            Outcome::Later => Ruling::Later,
            Outcome::Lost => Ruling::Lost,
            Outcome::NotNow | Outcome::Full | Outcome::NotShared => Ruling::Refused,
        });
        Record { claim, granted, bytes, steps }
    }

    fn access(&self) -> Access {
        if self.granted.outcome == Outcome::Write { Access::Write } else { Access::Read }
    }

    /// Goes on as far as words and frames are concerned. Returns false where bytes are put into a frame first.
    fn go_on(&mut self, inside: &mut Inside) -> Result<bool, String> {
        let Claim { page, slot, .. } = self.claim;
        let (version, access) = (self.granted.version, self.access());
        let frames = &mut inside.frames;
        loop {
            match self.steps.act() {
                Act::Fill => {
                    let fill = frames.change(page, |word| word.fill(slot, version, access)).map_err(text)?;
                    self.steps.on_fill(fill, is_asked_for(frames.look(page), slot));
                }
                Act::Put => {
                    frames.begin_fill(page, (slot, version), self.bytes.take());
                    return Ok(false);
                }
                Act::Publish => {
                    let installed = frames.end_fill(page, slot).map_err(text)?;
                    let installed = installed.unwrap_or(Installed::Gone);
                    self.steps.on_installed(installed, is_asked_for(frames.look(page), slot));
                }
                Act::Grant => {
                    let installed = frames.change(page, |word| word.grant(slot, version, access)).map_err(text)?;
                    self.steps.on_installed(installed, is_asked_for(frames.look(page), slot));
                }
                Act::GiveUp => {
                    fail(inside, self.claim)?;
                    return self.done().go_on(inside);
                }
                Act::Undo | Act::Acknowledge | Act::Break | Act::Map | Act::End(_) => return Ok(true),
            }
        }
    }

    fn done(&mut self) -> &mut Record {
        self.steps.done();
        self
    }
}

fn text(corrupt: hanare_protocol::Corrupt) -> String {
    corrupt.0.to_owned()
}

fn is_asked_for(word: PageWord, slot: u16) -> bool {
    word.is_asked_for() && word.claimer() == slot
}

/// A claim is over without a page.
fn fail(inside: &mut Inside, Claim { page, slot, .. }: Claim) -> Check {
    let failed = inside.frames.change(page, |word| word.fail(slot)).map_err(text)?;
    if failed.is_some() {
        inside.frames.clear_slot(slot);
    }
    Ok(())
}

impl PageWorld {
    /// A thread asks the home for what it claimed.
    pub(super) fn ask(&mut self, of: (Life, u64, usize), claims: Vec<Claim>) -> Check {
        let (life, client, thread) = of;
        let gid = self.processes[&life].programs[&client].gid;
        let Some(number) = self.link_to(of, gid) else {
            self.count("requests for a home that is not reached");
            return self.hand_over(of, claims);
        };
        let inside = self.inside(life, client).expect("the caller saw it");
        let share = inside.share;
        let it = &mut inside.threads[thread];
        it.seq += 1;
        let seq = it.seq;
        let request = |(k, claim): (usize, &Claim)| {
            let Claim { page, slot, number, access, has, firm } = *claim;
            let ticket = Ticket { slot, number };
            PageRequest { page: page.0, ticket, access, has, firm, tries: k > 0 }
        };
        let requests = claims.iter().enumerate().map(request).collect();
        self.note(format!("a thread of {client} at {life} asks {} over link {number}: {claims:?}", gid.0));
        self.inside(life, client).expect("just seen").threads[thread].doing = ThreadWork::Asked(claims);
        self.say(number, true, Event::Asked { link: number, seq, share, requests });
        Ok(())
    }

    /// The thread's link to a home, made anew where there is none. A home that stands still takes it in later.
    fn link_to(&mut self, (life, client, thread): (Life, u64, usize), gid: Gid) -> Option<u64> {
        let home = self.home_of(gid)?;
        let is_cut = self.cuts.get(&(life, home)).is_some_and(|until_ms| self.now_ms < *until_ms);
        let known = self.inside(life, client)?.threads[thread].link;
        if known.is_some() || is_cut {
            return known;
        }
        let number = self.draw();
        self.links.insert(number, ThreadLink { link: Link::default(), home, of: (life, client, thread) });
        self.inside(life, client)?.threads[thread].link = Some(number);
        Some(number)
    }

    /// A message over a thread's link, which breaks with it now and then.
    fn say(&mut self, number: u64, to_home: bool, event: Event) {
        let (breaks, delay_ms, now_ms) = (self.weather.loss / LOSSES_A_BREAK, self.delay_ms(), self.now_ms);
        let is_broken = self.dice.chance(breaks);
        let Some(link) = self.links.get_mut(&number) else { return };
        if is_broken {
            link.link.cut(now_ms + delay_ms / 2);
        }
        match link.link.arrival(now_ms, delay_ms, to_home) {
            Some(after) => self.at(after, event),
            None => self.count("messages of threads lost"),
        }
        if is_broken {
            self.end_link(number);
        }
    }

    /// A thread's link breaks.
    pub(super) fn break_link(&mut self, life: Life, client: u64, thread: usize) {
        let now_ms = self.now_ms;
        let Some(number) = self.inside(life, client).and_then(|inside| inside.threads[thread].link) else { return };
        if let Some(link) = self.links.get_mut(&number) {
            link.link.cut(now_ms);
            self.end_link(number);
        }
    }

    /// Both sides of a link see its end, each at its own time.
    fn end_link(&mut self, number: u64) {
        self.count("links that broke");
        for at_home in [true, false] {
            let after = self.dice.pick(&[0, 1, 50, 500]);
            self.at(after, Event::LinkEnded { link: number, at_home });
        }
    }

    /// The links of a life that is over end.
    pub(super) fn end_links_of(&mut self, gone: Life) {
        let now_ms = self.now_ms;
        let its = |link: &ThreadLink| link.home == gone || link.of.0 == gone;
        let those: Vec<u64> = self.links.iter().filter(|(_, link)| its(link)).map(|(number, _)| *number).collect();
        for number in those {
            self.links.get_mut(&number).expect("just seen").link.cut(now_ms);
            self.end_link(number);
        }
    }

    /// The home at which a thread's message arrives.
    pub(super) fn home_at(&self, number: u64) -> Option<Life> {
        Some(self.links.get(&number)?.home)
    }

    /// The life of a link's thread.
    pub(super) fn thread_at(&self, number: u64) -> Option<Life> {
        Some(self.links.get(&number)?.of.0)
    }

    fn arrives_at(&self, number: u64, at_home: bool) -> bool {
        self.links.get(&number).is_some_and(|link| link.link.is_open(self.now_ms, at_home))
    }

    pub(super) fn on_asked(&mut self, number: u64, seq: u64, share: u64, requests: &[PageRequest]) -> Check {
        let Some(home) = self.home_at(number).filter(|_| self.arrives_at(number, true)) else { return Ok(()) };
        self.tell(home, PageInput::PageRequests { session: number, seq, share, requests })
    }

    pub(super) fn on_settled(&mut self, number: u64, share: u64, settled: &[Settled]) -> Check {
        let Some(home) = self.home_at(number).filter(|_| self.arrives_at(number, true)) else { return Ok(()) };
        self.note(format!("{home} hears over link {number}: {settled:?}"));
        self.tell(home, PageInput::Settled { session: number, share, settled })
    }

    /// A home replies to a thread.
    pub(super) fn reply(&mut self, number: u64, seq: u64, reply: &PageReply<VectorPages>) {
        let answer = |(granted, body): (&Granted, &PageBody<()>)| match body {
            PageBody::Copy(bytes) => (*granted, Some(bytes.clone())),
            PageBody::None | PageBody::Here(()) => (*granted, None),
        };
        let answers: Vec<PageAnswer> = reply.answers().map(answer).collect();
        let granted = answers.iter().filter(|(granted, _)| matches!(granted.outcome, Outcome::Read | Outcome::Write)).count();
        (0..granted).for_each(|_| self.count("grants that went with a reply"));
        self.say(number, false, Event::Granted { link: number, seq, answers });
    }

    pub(super) fn on_link_ended_at_home(&mut self, number: u64) -> Check {
        let Some(link) = self.links.get_mut(&number) else { return Ok(()) };
        let was_open = std::mem::replace(&mut link.link.is_open_at_home, false);
        let home = link.home;
        if !link.link.is_open_at_client {
            self.links.remove(&number);
        }
        if !was_open || self.has(Defect::KeepLinks) {
            return Ok(());
        }
        self.note(format!("{home} sees the end of link {number}"));
        self.tell(home, Input::LinkGone { link: number })
    }

    /// A thread sees that its link has ended: what it asked for is its node's.
    pub(super) fn on_link_broken(&mut self, number: u64) -> Check {
        let Some(link) = self.links.get_mut(&number) else { return Ok(()) };
        let was_open = std::mem::replace(&mut link.link.is_open_at_client, false);
        let of = link.of;
        if !link.link.is_open_at_home {
            self.links.remove(&number);
        }
        let Some(inside) = self.inside(of.0, of.1).filter(|_| was_open) else { return Ok(()) };
        let thread = &mut inside.threads[of.2];
        if thread.link != Some(number) {
            return Ok(());
        }
        thread.link = None;
        match std::mem::take(&mut thread.doing) {
            ThreadWork::Asked(claims) => self.hand_over(of, claims),
            other => {
                thread.doing = other;
                Ok(())
            }
        }
    }

    /// A thread does not know what its home made of its requests: its node asks for them again.
    fn hand_over(&mut self, (life, client, thread): (Life, u64, usize), claims: Vec<Claim>) -> Check {
        let gives_up = self.has(Defect::GiveUpClaims);
        let after = self.dice.pick(&[0, 0, 1, 20]);
        let gid = self.processes[&life].programs[&client].gid;
        let inside = self.inside(life, client).expect("the caller saw it");
        if gives_up {
            claims.into_iter().try_for_each(|claim| fail(inside, claim))?;
            return self.go_on(life);
        }
        let first = inside.slot(thread);
        let slots = first..first + claims.len() as u16;
        inside.threads[thread].doing = ThreadWork::Waits(claims);
        self.note(format!("a thread of {client} at {life} does not know about slots {slots:?}"));
        self.count("requests taken over by a node");
        self.at(after, Event::TakeOver { life, client, gid, slots });
        Ok(())
    }

    pub(super) fn on_take_over(&mut self, life: Life, client: u64, gid: Gid, slots: Range<u16>) -> Check {
        self.tell(life, PageInput::TakeOver { client: ClientId(client), gid, slots })
    }

    /// A reply arrives at its thread.
    pub(super) fn on_granted(&mut self, number: u64, seq: u64, answers: Vec<PageAnswer>) -> Check {
        if !self.arrives_at(number, false) {
            return Ok(());
        }
        let Some((life, client, thread)) = self.links.get(&number).map(|link| link.of) else { return Ok(()) };
        let install = self.draw();
        let told: Vec<Granted> = answers.iter().map(|(granted, _)| *granted).collect();
        self.note(format!("a thread of {client} at {life} is told {told:?}"));
        let Some(inside) = self.inside(life, client) else { return Ok(()) };
        let it = &mut inside.threads[thread];
        if it.link != Some(number) || it.seq != seq {
            return Ok(());
        }
        let ThreadWork::Asked(claims) = std::mem::take(&mut it.doing) else {
            return Err(format!("a reply to a thread of {life} that asked for nothing"));
        };
        check(claims.len() == answers.len(), || format!("life {life} hears {answers:?} to {claims:?}"))?;
        if answers.iter().any(|(granted, _)| granted.outcome == Outcome::NotShared) {
            claims.into_iter().try_for_each(|claim| fail(inside, claim))?;
            inside.is_over = true;
            self.count("faults of a share that is over");
            return self.go_on(life);
        }
        let records = claims.into_iter().zip(answers).map(|(claim, answer)| Record::new(claim, answer)).collect();
        it.doing = ThreadWork::Installs(Install { number: install, records, at: 0 });
        self.install(life, client, thread)
    }

    /// A thread's bytes are in the frame.
    pub(super) fn on_filled(&mut self, life: Life, client: u64, thread: usize, number: u64) -> Check {
        let Some(inside) = self.inside(life, client) else { return Ok(()) };
        match &mut inside.threads[thread].doing {
            ThreadWork::Installs(install) if install.number == number => install.records[install.at].steps.on_put(true),
            _ => return Ok(()),
        }
        self.install(life, client, thread)
    }

    /// A thread goes on with a reply until it fills a frame, or is done with it.
    fn install(&mut self, life: Life, client: u64, thread: usize) -> Check {
        let inside = self.inside(life, client).expect("the caller saw it");
        let ThreadWork::Installs(mut install) = std::mem::take(&mut inside.threads[thread].doing) else { return Ok(()) };
        while let Some(record) = install.records.get_mut(install.at) {
            if !record.go_on(inside)? {
                let number = install.number;
                inside.threads[thread].doing = ThreadWork::Installs(install);
                let after = self.dice.pick(&[0, 1, 20, 200]);
                self.count("frames filled by threads");
                self.at(after, Event::Filled { life, client, thread, number });
                return self.go_on(life);
            }
            install.at += 1;
        }
        self.end_install((life, client, thread), install.records)
    }

    /// All of a reply is in its place: the home is told, and the pages are mapped and used.
    fn end_install(&mut self, (life, client, thread): (Life, u64, usize), mut records: Vec<Record>) -> Check {
        let gid = self.processes[&life].programs[&client].gid;
        let inside = self.inside(life, client).expect("the caller saw it");
        let (share, link, mut settled) = (inside.share, inside.threads[thread].link, Vec::new());
        for record in records.iter_mut().filter(|record| record.steps.act() == Act::Acknowledge) {
            let Claim { page, slot, number, .. } = record.claim;
            let ticket = Ticket { slot, number };
            settled.push(Settled { page: page.0, ticket, version: record.granted.version });
            record.steps.done();
        }
        if let Some(number) = link.filter(|_| !settled.is_empty()) {
            self.say(number, true, Event::Settled { link: number, share, settled });
        }
        let gone = records.iter_mut().filter(|record| record.steps.act() == Act::Break);
        if gone.map(|record| record.steps.done()).count() > 0 {
            self.count("grants whose claims were gone");
            self.break_link(life, client, thread);
        }
        let (mut later, mut overtaken) = (Vec::new(), None);
        for (k, mut record) in records.into_iter().enumerate() {
            let Claim { page, slot, .. } = record.claim;
            if record.steps.act() == Act::Map {
                self.map_granted((life, client), gid, (page, slot), record.access())?;
                record.steps.done();
            }
            match record.steps.act() {
                Act::End(End::Later) => later.push(record.claim),
                Act::End(End::Lost) => {
                    self.count("faults refused");
                    self.judge_refusal(gid, page)?;
                }
                Act::End(End::Overtaken) if k == 0 => overtaken = Some(record.claim),
                _ => {}
            }
        }
        let is_idle = later.is_empty();
        if let Some(inside) = self.inside(life, client).filter(|_| !is_idle) {
            inside.threads[thread].doing = ThreadWork::Waits(later);
        }
        self.go_on(life)?;
        match overtaken {
            Some(Claim { page, access, .. }) => {
                self.count("grants overtaken");
                self.touch((life, client, thread), page, access, true)
            }
            None => Ok(()),
        }
    }

    /// Maps a page that was granted, if its word lets the thread in, and uses it.
    fn map_granted(&mut self, (life, client): (Life, u64), gid: Gid, (page, slot): (Page, u16), access: Access) -> Check {
        let inside = self.inside(life, client).expect("the caller saw it");
        let access = if inside.frames.look(page).is_written() { access } else { Access::Read };
        if !inside.frames.change(page, |word| word.enter(access)).map_err(text)? {
            inside.frames.clear_slot(slot);
            return Ok(());
        }
        self.count("pages installed");
        self.leave((life, client), page, slot)?;
        self.use_page(life, gid, page, access)
    }

    /// Threads whose claims their node has settled go on.
    pub(super) fn free_threads(&mut self, life: Life) -> Check {
        let Some(process) = self.processes.get_mut(&life) else { return Ok(()) };
        let mut installed = 0;
        for program in process.programs.values_mut() {
            let super::Phase::Inside(Inside { frames, threads, .. }) = &mut program.phase else { continue };
            for thread in threads {
                let ThreadWork::Waits(claims) = &mut thread.doing else { continue };
                claims.retain(|claim| {
                    let word = frames.look(claim.page);
                    let is_open = word.is_claimed() && word.claimer() == claim.slot;
                    installed += usize::from(!is_open && word.may_map(Access::Read));
                    is_open
                });
                if claims.is_empty() {
                    thread.doing = ThreadWork::Nothing;
                }
            }
        }
        (0..installed).for_each(|_| self.count("pages installed"));
        Ok(())
    }
}
