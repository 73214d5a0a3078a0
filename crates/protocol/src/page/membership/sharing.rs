//! A region on one host: programs that want to map it, its homes, and its end.
//!
//! The host asks the homes for each program, because nobody else can check its grants. It asks for one program at a time. When nobody maps
//! the region, its pages go home, then the homes get `Leave`. The host first waits for a home that was asked and has not answered. Without
//! `Leave` that home would keep a sharer that has given up everything. Programs that want to map the region meanwhile ask again when it is
//! gone.
//!
//! The driver keeps memory, mappings and addresses. It does the steps of [`Sharing::poll`], and looks at pages where [`Sharing::may_empty`]
//! and [`Sharing::handing`] tell it to.

use super::life::{Life, Over};
use super::table::{Event, HOME, HomeEvent, HomePhase, Phase, REGION};
use crate::id::{ClientId, Epoch, Incarnation, Rights};
use crate::table;
use std::collections::VecDeque;

/// A program's wish to map a region.
pub trait MapRequest {
    /// The program.
    fn client(&self) -> ClientId;

    /// The rights that it asks for.
    fn rights(&self) -> Rights;
}

/// Why a program may not map the region.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Refused<E> {
    /// A home refuses.
    ByHome(E),
    /// The grants allow less at this home.
    Rights(usize),
    /// The home at this index was lost, or came back, before it replied.
    Lost(usize),
    /// The node was taken for lost.
    CutOff,
}

/// The driver's next action.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Action<W, E> {
    /// Ask all homes, with the grants of [`Sharing::wanted`].
    Ask,
    /// Let the program in.
    Admit(W),
    /// Tell the program why not.
    Refuse(W, Refused<E>),
    /// The program's turn has come: check what it wants, and [`Sharing::ask`].
    Again(W),
    /// Tell a home that nothing is here any more.
    Tell {
        /// The home's index.
        home: usize,
        /// The host's membership there.
        share: u64,
    },
    /// Answer to a home that is back: all that was here is on its way, or is not known.
    Farewell {
        /// The home's index.
        home: usize,
        /// The host's former membership there.
        share: u64,
        /// True if the home has all pages.
        has_all: bool,
    },
    /// The home may be joined by another key: messages by the old key are not for the new sharer.
    Rename(usize),
    /// Tell a program that unmapped the region whether all its stores are kept.
    Unmapped(ClientId, Option<E>),
    /// Forget the region.
    End,
}

/// The state of pages that a returned home is to get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReturnOutcome {
    /// Still being taken.
    Waits,
    /// All are on their way.
    All,
    /// A program keeps some: they are lost.
    Late,
}

/// A home. Its share is there in all phases in which the home knows this host.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct KnownHome {
    phase: HomePhase,
    share: Option<u64>,
    /// Its node's life, as far as this host has heard.
    life: Life,
    /// Since when it gets what is here.
    since_ms: u64,
}

impl KnownHome {
    fn take(&mut self, event: HomeEvent) -> bool {
        let next = table::next(HOME, self.phase, event);
        self.phase = next.unwrap_or(self.phase);
        if self.phase == HomePhase::Stranger {
            self.share = None;
        }
        next.is_some()
    }

    fn is_asked(&self) -> bool {
        matches!(self.phase, HomePhase::Asked | HomePhase::AskedAgain)
    }
}

/// State of a region that is being left.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Leaving<E> {
    since_ms: u64,
    /// Programs that wait for the end.
    replies: Vec<ClientId>,
    /// Why not all that was stored is home.
    failed: Option<E>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum State<W, E> {
    Rest,
    /// For whom, unless that one has ended; and why it may not.
    Asking {
        wanted: Option<W>,
        failed: Option<Refused<E>>,
    },
    Emptying(Leaving<E>),
    Telling(Leaving<E>),
    Gone,
}

/// A region on one host.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Sharing<W, E> {
    state: State<W, E>,
    homes: Vec<KnownHome>,
    /// Programs that wait for their turn.
    then: VecDeque<W>,
    /// Time to wait for pages that programs keep.
    patience_ms: u64,
    actions: VecDeque<Action<W, E>>,
}

impl<W: MapRequest, E: Clone> Sharing<W, E> {
    /// A region with homes in these lives. Programs that keep pages are waited for so long when it is left.
    pub fn new(homes: impl IntoIterator<Item = Life>, patience_ms: u64) -> Sharing<W, E> {
        let known = |life| KnownHome { phase: HomePhase::Stranger, share: None, life, since_ms: 0 };
        let homes = homes.into_iter().map(known).collect();
        Sharing { state: State::Rest, homes, then: VecDeque::new(), patience_ms, actions: VecDeque::new() }
    }

    /// The next thing to do.
    pub fn poll(&mut self) -> Option<Action<W, E>> {
        self.actions.pop_front()
    }

    /// The region's phase.
    pub fn phase(&self) -> Phase {
        match self.state {
            State::Rest => Phase::Rest,
            State::Asking { .. } => Phase::Asking,
            State::Emptying(_) => Phase::Emptying,
            State::Telling(_) => Phase::Telling,
            State::Gone => Phase::Gone,
        }
    }

    /// A home's phase.
    pub fn home(&self, home: usize) -> HomePhase {
        self.homes[home].phase
    }

    /// The host's membership at a home.
    pub fn share(&self, home: usize) -> Option<u64> {
        self.homes[home].share
    }

    /// True if a home serves no programs here: it is lost, or takes its pages back.
    pub fn is_lost(&self, home: usize) -> bool {
        matches!(self.home(home), HomePhase::Lost | HomePhase::Handing)
    }

    /// A home that is of no use to programs here, if there is one.
    pub fn lost(&self) -> Option<usize> {
        (0..self.homes.len()).find(|home| self.is_lost(*home))
    }

    /// For whom the homes are asked.
    pub fn wanted(&self) -> Option<&W> {
        match &self.state {
            State::Asking { wanted, .. } => wanted.as_ref(),
            _ => None,
        }
    }

    /// True if it waits for the clock.
    pub fn waits(&self) -> bool {
        self.phase() != Phase::Rest || self.handing().next().is_some()
    }

    /// A program wants to map the region. Returned if it is its turn at once.
    #[must_use = "it is this one's turn"]
    pub fn share_with(&mut self, wanted: W) -> Option<W> {
        if self.phase() == Phase::Rest {
            return Some(wanted);
        }
        self.then.push_back(wanted);
        None
    }

    /// The homes are asked for a program whose turn it is.
    pub fn ask(&mut self, wanted: W) {
        assert!(self.may(Event::Ask), "whose turn it is asks");
        self.state = State::Asking { wanted: Some(wanted), failed: None };
        for known in &mut self.homes {
            known.take(HomeEvent::Ask);
        }
        self.actions.push_back(Action::Ask);
        self.go_on();
    }

    /// The program whose turn it is finds another region here, which nobody maps: that one is left first.
    pub fn leave_for(&mut self, wanted: W, now_ms: u64) {
        self.then.push_front(wanted);
        self.leave(now_ms);
    }

    /// A home was reached in another life before it knew this host: where it is reached, the driver knows.
    pub fn meet(&mut self, home: usize, epoch: Epoch) {
        let known = &mut self.homes[home];
        if known.share.is_none() {
            known.life = Life { epoch, process: None };
        }
    }

    /// True if a home belongs to a life of its node that is over.
    pub fn is_over(&self, home: usize, over: Over) -> bool {
        self.homes[home].life.is_over(over)
    }

    /// A home, in that life, takes this host in with that membership and those rights. Returns true if it was asked. A home that was not
    /// asked has to hear `Forgot`. It has a sharer that does not know it, and this host cannot say what that sharer had. So has a home that
    /// knew this host by another membership. It went on without this host meanwhile, and says so.
    ///
    /// The life may be a later one than this host asked: late news of the end of those before must not end it.
    pub fn on_accepted(&mut self, home: usize, life: Life, (share, rights): (u64, Rights)) -> bool {
        let known = &mut self.homes[home];
        if known.share.is_some_and(|earlier| earlier != share) {
            return false;
        }
        if !known.take(HomeEvent::Accept) {
            return known.share == Some(share);
        }
        (known.share, known.life) = (Some(share), life);
        if self.wanted().is_some_and(|wanted| wanted.rights() > rights) {
            self.fail_asking(Refused::Rights(home));
        }
        self.go_on();
        true
    }

    /// A home does not take this host in, for that program.
    pub fn on_refused(&mut self, home: usize, error: E) {
        if self.homes[home].take(HomeEvent::Refuse) {
            self.fail_asking(Refused::ByHome(error));
            self.go_on();
        }
    }

    fn fail_asking(&mut self, refused: Refused<E>) {
        if let State::Asking { failed, .. } = &mut self.state {
            failed.get_or_insert(refused);
        }
    }

    /// A program has ended.
    pub fn on_client_gone(&mut self, client: ClientId) {
        self.then.retain(|wanted| wanted.client() != client);
        if let State::Asking { wanted, .. } = &mut self.state {
            wanted.take_if(|wanted| wanted.client() == client);
        }
    }

    /// A program unmaps the region. It is answered when the region is gone, if nobody maps it, nor is about to.
    pub fn unmap(&mut self, client: ClientId, is_unused: bool, now_ms: u64) {
        if is_unused && self.phase() == Phase::Rest {
            self.leave(now_ms);
        }
        match &mut self.state {
            State::Emptying(leaving) | State::Telling(leaving) if is_unused => leaving.replies.push(client),
            _ => self.actions.push_back(Action::Unmapped(client, None)),
        }
    }

    /// The last client has unmapped the region.
    pub fn on_unused(&mut self, now_ms: u64) {
        if self.phase() == Phase::Rest {
            self.leave(now_ms);
        }
    }

    /// The region is of no more use here: it is left, also while homes are asked. Who wants it asks again afterwards.
    pub fn give_up(&mut self, now_ms: u64) {
        if let State::Asking { wanted, .. } = &mut self.state
            && let Some(wanted) = wanted.take()
        {
            self.then.push_front(wanted);
        }
        self.leave(now_ms);
    }

    fn leave(&mut self, now_ms: u64) {
        if self.may(Event::Leave) {
            self.state = State::Emptying(Leaving { since_ms: now_ms, replies: Vec::new(), failed: None });
        }
    }

    /// True if pages may go home: no home is being asked, and none takes its pages back.
    pub fn may_empty(&self) -> bool {
        let is_busy = |known: &KnownHome| known.is_asked() || known.phase == HomePhase::Handing;
        self.phase() == Phase::Emptying && !self.homes.iter().any(is_busy)
    }

    /// Not all stores are kept: programs that unmap get the error.
    pub fn fail(&mut self, error: E) {
        if let State::Emptying(leaving) | State::Telling(leaving) = &mut self.state {
            leaving.failed.get_or_insert(error);
        }
    }

    /// The driver has taken all pages that it could. The homes are told if all are on their way, or if a program keeps pages for too long.
    pub fn on_emptied(&mut self, is_empty: bool, now_ms: u64, stuck: impl FnOnce() -> E) {
        let State::Emptying(leaving) = &mut self.state else { return };
        if !self.homes.iter().all(|known| !known.is_asked()) {
            return;
        }
        if !is_empty && now_ms.saturating_sub(leaving.since_ms) <= self.patience_ms {
            return;
        }
        if !is_empty {
            leaving.failed.get_or_insert_with(stuck);
        }
        let leaving = leaving.clone();
        assert!(self.may(Event::Tell), "its pages went home");
        self.state = State::Telling(leaving);
        for (home, known) in self.homes.iter_mut().enumerate() {
            if known.take(HomeEvent::Tell)
                && let Some(share) = known.share
            {
                self.actions.push_back(Action::Tell { home, share });
            }
        }
        self.go_on();
    }

    /// A home knows this host no more.
    pub fn on_left(&mut self, home: usize) {
        if self.home(home) == HomePhase::Told {
            self.homes[home].take(HomeEvent::Forget);
            self.go_on();
        }
    }

    /// A home is lost: it is not waited for.
    pub fn on_lost(&mut self, home: usize) {
        self.homes[home].take(HomeEvent::Lose);
        self.fail_asking(Refused::Lost(home));
        self.go_on();
    }

    /// A home is in the place of another, on another node: news of that node's end are news of this home.
    pub fn meet_in_place(&mut self, home: usize, process: Incarnation) {
        self.homes[home].life = Life { epoch: Epoch(0), process: Some(process) };
    }

    /// Another node becomes the home. The one before does not answer, and what it knows of this host the next one knows.
    pub fn on_home_moves(&mut self, home: usize) {
        if self.homes[home].is_asked() {
            self.homes[home].take(HomeEvent::Refuse);
            self.fail_asking(Refused::Lost(home));
        }
        self.go_on();
    }

    /// The node was taken for lost. `others` are homes that have gone on without it and no longer know it.
    pub fn begin_anew(&mut self, others: impl IntoIterator<Item = usize>) {
        for home in others {
            self.forget(home);
        }
        assert!(self.may(Event::BeginAnew), "at any time but after its end");
        match std::mem::replace(&mut self.state, State::Rest) {
            State::Asking { wanted, .. } => {
                let all = wanted.into_iter().chain(std::mem::take(&mut self.then));
                self.actions.extend(all.map(|wanted| Action::Refuse(wanted, Refused::CutOff)));
            }
            // The other homes would not answer to a farewell.
            State::Emptying(leaving) | State::Telling(leaving) => self.state = State::Emptying(leaving),
            State::Rest | State::Gone => {}
        }
    }

    fn forget(&mut self, home: usize) {
        self.homes[home].take(HomeEvent::Forget);
        self.actions.push_back(Action::Rename(home));
    }

    /// A home is back that calls this host by its key, and knows it by that share. It `takes` what is here, or has done without this host.
    ///
    /// The driver drops the home's pages where it does not take them.
    pub fn on_returned(&mut self, home: usize, share: u64, takes: bool, now_ms: u64) {
        // A client that is let in is known to all homes, including those that replied before this one came back.
        self.fail_asking(Refused::Lost(home));
        let known = &mut self.homes[home];
        // The home's new life is later than the lost one, so late news of that loss does not concern it.
        known.life.epoch = Epoch(known.life.epoch.0 + 1);
        let was = known.phase;
        match known.share {
            // Its answer never came, and so nothing of it did.
            None => {
                self.actions.push_back(Action::Farewell { home, share, has_all: takes });
                self.forget(home);
            }
            Some(known) if known != share => self.actions.push_back(Action::Farewell { home, share, has_all: false }),
            Some(_) if !takes => {
                self.actions.push_back(Action::Farewell { home, share, has_all: false });
                self.forget(home);
            }
            Some(_) => {
                known.take(HomeEvent::Return);
                match was {
                    HomePhase::Told => self.actions.push_back(Action::Farewell { home, share, has_all: true }),
                    HomePhase::Handing => {}
                    _ => known.since_ms = now_ms,
                }
            }
        }
        self.go_on();
    }

    /// The homes that are back and get what is here.
    pub fn handing(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.homes.len()).filter(|home| self.home(*home) == HomePhase::Handing)
    }

    /// The driver has taken all pages that it could of a home that is back. `knows` is false where it does not know which pages are here.
    pub fn on_pages_returned(&mut self, home: usize, is_empty: bool, knows: bool, now_ms: u64) -> ReturnOutcome {
        let known = &self.homes[home];
        let (Some(share), HomePhase::Handing) = (known.share, known.phase) else { return ReturnOutcome::Waits };
        if !is_empty && now_ms.saturating_sub(known.since_ms) <= self.patience_ms {
            return ReturnOutcome::Waits;
        }
        self.actions.push_back(Action::Farewell { home, share, has_all: is_empty && knows });
        self.forget(home);
        if is_empty { ReturnOutcome::All } else { ReturnOutcome::Late }
    }

    /// Asking ends with the last answer, and the region with the last home that knows.
    fn go_on(&mut self) {
        let is_asking = self.phase() == Phase::Asking && !self.homes.iter().any(KnownHome::is_asked);
        if is_asking && self.may(Event::AnswerLast) {
            let State::Asking { wanted, failed } = std::mem::replace(&mut self.state, State::Rest) else { return };
            let answered = wanted.map(|wanted| match failed {
                Some(refused) => Action::Refuse(wanted, refused),
                None => Action::Admit(wanted),
            });
            self.actions.extend(answered);
            self.actions.extend(std::mem::take(&mut self.then).into_iter().map(Action::Again));
        }
        let is_told = self.phase() == Phase::Telling && self.homes.iter().all(|known| known.phase != HomePhase::Told);
        if is_told && self.may(Event::LeftLast) {
            let State::Telling(leaving) = std::mem::replace(&mut self.state, State::Gone) else { return };
            self.actions.push_back(Action::End);
            let Leaving { replies, failed, .. } = leaving;
            self.actions.extend(replies.into_iter().map(|client| Action::Unmapped(client, failed.clone())));
            self.actions.extend(std::mem::take(&mut self.then).into_iter().map(Action::Again));
        }
    }

    fn may(&self, event: Event) -> bool {
        table::next(REGION, self.phase(), event).is_some()
    }
}
