//! A node's process under virtual time: every output is taken after every input, and ticks come when they are due.

use super::commands::Stage;
use super::words::WordWait;
use super::{Defect, Event, Life, MappingProgram, PAGE_COUNT, PageWorld, Truth, value_of};
use crate::check::Check;
use crate::harness::due;
use hanare_home::{
    Home, Input, LockTerms, Output, PageInput, PageOutput, PageTerms, PageVectors, Pages, Vector, VectorFrames, VectorPages,
    Vectors, WireOutput,
};
use hanare_protocol::id::{Epoch, Gid, Incarnation, NodeId};
use hanare_protocol::page::word::{PageWord, State};
use hanare_protocol::page::{Face, HostMemory, Page};
use std::collections::BTreeMap;
use std::time::Duration;

/// Time that nodes wait for others. Hosts need less, whatever happens.
const PATIENCE_MS: u64 = 40_000;
/// Time that the nodes wait whose commands come late.
const SHORT_PATIENCE_MS: u64 = 2_000;
/// Numbers that a life's node draws, at most.
const NUMBERS_OF_LIFE: u64 = 1 << 32;

/// A region on a host, as long as programs map it.
pub(super) struct Mapped {
    pub frames: VectorFrames,
    /// The host's membership at the home.
    pub share: u64,
    /// The words of its pages after the last event.
    words: Vec<PageWord>,
}

/// A node's process.
pub(super) struct Process {
    pub node: usize,
    pub epoch: u64,
    pub home: Home<PageVectors, Vector>,
    pub memory: PageVectors,
    /// The same bytes, for words.
    region: Vectors,
    /// The bytes of the region that lies here.
    pub bytes: VectorPages,
    /// True if its commands wait for a short time alone.
    pub is_impatient: bool,
    tick_at: Option<u64>,
    pub programs: BTreeMap<u64, MappingProgram>,
    pub mapped: BTreeMap<Gid, Mapped>,
    /// Gets and puts that are under way.
    pub stages: BTreeMap<Face, Stage>,
    /// Waits for words, by their link.
    pub words: BTreeMap<u64, WordWait>,
}

impl Mapped {
    pub fn new(frames: VectorFrames, share: u64) -> Mapped {
        let words = vec![PageWord::NEVER; PAGE_COUNT as usize];
        Mapped { frames, share, words }
    }

    pub fn state(&self, page: Page) -> State {
        self.frames.look(page).state().expect("nobody scribbles")
    }

    pub fn value(&self, page: Page) -> Option<u64> {
        self.frames.frame(page).map(|bytes| value_of(&bytes))
    }
}

impl PageWorld {
    pub(super) fn start(&mut self, node: usize) {
        let life = self.draw();
        self.epochs[node] += 1;
        self.nodes[node] = Some(life);
        let is_impatient = self.dice.chance(1_500);
        // Few frames make pages leave.
        let frames_max = if self.dice.chance(1_500) { 3 } else { 1_000 };
        let answer = Duration::from_millis(if is_impatient { SHORT_PATIENCE_MS } else { PATIENCE_MS });
        let terms = PageTerms { address: address_of(node), life: Incarnation(life.into()), answer, frames_max };
        let memory = PageVectors::drawing_from(life * NUMBERS_OF_LIFE);
        let process = Process {
            node,
            epoch: self.epochs[node],
            home: home(terms, &memory),
            bytes: memory.pages(Gid(life)),
            region: Vectors::of_pages(Gid(life), PAGE_COUNT, memory.pages(Gid(life))).0,
            memory,
            is_impatient,
            tick_at: None,
            programs: BTreeMap::new(),
            mapped: BTreeMap::new(),
            stages: BTreeMap::new(),
            words: BTreeMap::new(),
        };
        self.processes.insert(life, process);
        for page in 0..PAGE_COUNT {
            self.truths.insert((Gid(life), Page(page)), Truth::default());
        }
        self.note(format!("life {life} of node {node} begins"));
        self.identify(life).expect("nothing is there that could fail");
        self.set_going(life);
    }

    /// A process forgets who had newer bytes of its region, as if it had begun anew.
    pub(super) fn forget_owners(&mut self, life: Life) {
        let Some(process) = self.processes.get_mut(&life) else { return };
        let (life, answer) = (Incarnation(life.into()), Duration::from_millis(PATIENCE_MS));
        let terms = PageTerms { address: address_of(process.node), life, answer, frames_max: 1_000 };
        process.home = home(terms, &process.memory);
        process.programs.clear();
        process.mapped.clear();
        process.stages.clear();
        process.words.clear();
    }

    /// A process is taken in by the pool in its present epoch.
    pub(super) fn identify(&mut self, life: Life) -> Check {
        let Some(process) = self.processes.get(&life) else { return Ok(()) };
        let (node, epoch) = (NodeId(process.node as u32), Epoch(process.epoch));
        self.tell(life, PageInput::Identity { node, epoch })
    }

    /// Starts a life's repeated events.
    pub(super) fn set_going(&mut self, life: Life) {
        for _ in 0..3 {
            self.at(1, Event::Program { life });
        }
        self.at(1, Event::Command { life });
    }

    /// A node hears of an event, and what it wants of that is done.
    pub(super) fn tell<'a>(&mut self, life: Life, input: impl Into<Input<'a, PageVectors>>) -> Check {
        let now = Duration::from_millis(self.now_ms);
        let Some(process) = self.processes.get_mut(&life) else { return Ok(()) };
        process.home.handle(now, input.into(), &process.region);
        self.go_on(life)
    }

    pub(super) fn on_tick(&mut self, life: Life) -> Check {
        let now_ms = self.now_ms;
        let Some(process) = self.processes.get_mut(&life) else { return Ok(()) };
        process.tick_at.take_if(|at| *at <= now_ms);
        self.tell(life, Input::Tick)
    }

    /// A node takes the pages that can be taken, and its outputs are acted on.
    pub(super) fn go_on(&mut self, life: Life) -> Check {
        let now_ms = self.now_ms;
        let now = Duration::from_millis(now_ms);
        if let Some(process) = self.processes.get_mut(&life) {
            while process.home.pages().is_busy() && process.home.turn(now) {}
        }
        while let Some(output) = self.processes.get_mut(&life).and_then(|process| process.home.poll(&process.region)) {
            match output {
                Output::Pages(output) => self.on_output(life, output)?,
                Output::Sync(output) => self.on_word(life, output)?,
                Output::Copies(output) => unreachable!("no region has copies: {output:?}"),
            }
        }
        self.look_at_words(life)?;
        self.free_threads(life)?;
        let sleeps = self.has(Defect::SleepOn);
        let Some(process) = self.processes.get_mut(&life) else { return Ok(()) };
        let deadline = process.home.deadline().map(|at| at.as_micros().div_ceil(1_000) as u64);
        if let Some(after) = due(deadline.filter(|_| !sleeps), &mut process.tick_at, now_ms) {
            self.at(after, Event::Tick { life });
        }
        Ok(())
    }

    fn on_output(&mut self, life: Life, output: PageOutput<PageVectors>) -> Check {
        match output {
            PageOutput::Wire(WireOutput::Dial { node, .. }) => {
                self.dial(life, node.0 as usize);
                Ok(())
            }
            PageOutput::Wire(WireOutput::Send { place, frame }) => {
                self.send(life, place, frame.into_bytes());
                Ok(())
            }
            PageOutput::Wire(WireOutput::Close { place }) => {
                self.close(place);
                Ok(())
            }
            PageOutput::Grant { session, seq, reply } => {
                self.reply(session, seq, &reply);
                Ok(())
            }
            PageOutput::Recalled { face, outcome, .. } => self.on_recalled(life, face, outcome),
            PageOutput::End { session, error } => Err(format!("life {life} ends link {session}: {error}")),
            PageOutput::Reply { client, result, files } => self.on_reply(life, client.0, result, files),
            PageOutput::GiveWay => Ok(()),
        }
    }

    /// Looks at the pages whose words have changed: one that its host may write is what was stored last, and somebody stores at once.
    fn look_at_words(&mut self, life: Life) -> Check {
        let mut changed = Vec::new();
        if let Some(process) = self.processes.get_mut(&life) {
            for (gid, Mapped { frames, words, .. }) in &mut process.mapped {
                for (page, was) in words.iter_mut().enumerate() {
                    let page = Page(page as u64);
                    let is = frames.look(page);
                    let before = std::mem::replace(was, is);
                    if before != is {
                        let is_owned = |word: PageWord| word.state() == Ok(State::Owned);
                        let becomes = is_owned(is) && !(is_owned(before) && before.version() == is.version());
                        changed.push((*gid, page, becomes));
                    }
                }
            }
        }
        for (gid, page, becomes_owned) in changed {
            if becomes_owned {
                self.use_page(life, gid, page, hanare_protocol::page::Access::Write)?;
            }
            self.judge(gid, page)?;
        }
        Ok(())
    }
}

fn home(terms: PageTerms, memory: &PageVectors) -> Home<PageVectors, Vector> {
    Home::new(LockTerms::default(), 0, Pages::new(terms, memory.clone()))
}

/// A node's network address.
pub(super) fn address_of(node: usize) -> String {
    format!("node {node}")
}
