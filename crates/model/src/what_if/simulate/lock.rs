//! A lock that all ranks take, at the pool's home, node 0. The product decides: the `Locks` of the crate `home`, and the rules of the word
//! that a program shares with its node ([`LeaseWord`]). This file sends what they say.
use hanare_protocol::id::{ClientId, NodeId};
use hanare_protocol::lock::lease::{LeaseEvent, LeasePhase, LeaseWord, Recalled};
use hanare_protocol::lock::{Claim, Claimant, Claimed, Mode, RecallStep};
use hanare_protocol::wire::control::{self, FromNode, ToNode};
use hanare_protocol::wire::head::HEAD_LEN;
use hanare_protocol::wire::sync::{LeaseWish, SyncAddress, SyncAnswer, SyncRequest};

use super::rank::Doing;
use super::{Body, LockMessage, Message, World};
use crate::time::Picos;
use crate::what_if::path::{Expense, Path};

/// The lock's name.
const NAME: &str = "lock";
/// The pool's home.
const HOME: usize = 0;

impl LockMessage {
    /// Bytes on the wire, head included, by the product's own encoding.
    fn len(self, number: u64) -> u64 {
        let (client, home) = (ClientId(number), NodeId(HOME as u32));
        let body = match self {
            LockMessage::Claim => {
                let (address, lease) = (SyncAddress::Name(NAME.to_string()), LeaseWish { keeps: true, returns: None });
                let mode = Mode::Exclusive;
                control::encode(&SyncRequest::Lock { address, mode, number, thread: 0, bound_ms: None, known: None, lease })
            }
            LockMessage::Granted { leased } => control::encode(&SyncAnswer::Granted { abandoned: false, data: None, leased }),
            LockMessage::GiveBack => control::encode(&SyncRequest::Unlock { number }),
            LockMessage::GivenBack => control::encode(&SyncAnswer::Done),
            LockMessage::Recall => control::encode(&ToNode::Recall { client, number, home }),
            LockMessage::Recalled(recalled) => control::encode(&FromNode::Recalled { client, number, recalled, home }),
        };
        (HEAD_LEN + body.len()) as u64
    }
}

/// The taking of a rank.
fn claimant(rank: usize, number: u64) -> Claimant {
    Claimant { link: rank as u64, number }
}

impl World<'_> {
    /// A rank takes the lock; true where it kept it, which takes no message.
    pub(super) fn begin_lock(&mut self, rank: usize) -> bool {
        if self.step_word(rank, LeaseEvent::Take) {
            return true;
        }
        let empty = LeaseWord { number: self.taking(rank) + 1, phase: LeasePhase::Empty };
        self.ranks[rank].lease = empty.after(LeaseEvent::Ask);
        self.begin_ask(rank, LockMessage::Claim);
        false
    }

    /// A rank gives the lock back; true where it keeps it for its next turn.
    pub(super) fn begin_unlock(&mut self, rank: usize) -> bool {
        if self.step_word(rank, LeaseEvent::Keep) {
            return true;
        }
        self.begin_ask(rank, LockMessage::GiveBack);
        false
    }

    /// The number of a rank's last taking.
    fn taking(&self, rank: usize) -> u64 {
        self.ranks[rank].lease.map_or(0, |word| word.number)
    }

    /// Something happens to a rank's word; false where the word does not allow it.
    fn step_word(&mut self, rank: usize, event: LeaseEvent) -> bool {
        let lease = &mut self.ranks[rank].lease;
        let after = lease.and_then(|word| word.after(event));
        *lease = after.or(*lease);
        after.is_some()
    }

    fn begin_ask(&mut self, rank: usize, message: LockMessage) {
        let (here, bytes) = (self.node_of(rank), message.len(self.taking(rank)));
        let span = Picos::from_ns_f64(self.software(here, HOME).client / 2.0) + self.at_one_end(here, HOME, bytes);
        self.rank_works(rank, Expense::Library, span, Doing::AskHome(message));
    }

    /// The rank's request leaves, and it waits for the answer.
    pub(super) fn ask_home(&mut self, rank: usize, message: LockMessage) {
        let (number, path) = (self.taking(rank), self.ranks[rank].path.clone());
        self.send_lock(rank, number, (self.node_of(rank), HOME), message, &path);
        self.wait(rank);
    }

    fn send_lock(&mut self, rank: usize, number: u64, (from, to): (usize, usize), message: LockMessage, path: &Path) {
        let (now, bytes, path) = (self.engine.now(), message.len(number), path.clone());
        let is_for_rank = matches!(message, LockMessage::Granted { .. } | LockMessage::GivenBack);
        let body = Body::Lock(message, number);
        self.send(Message { rank, from, to, bytes, kind: "lock", begun: now, arrived: now, path, body }, is_for_rank);
    }

    /// The home, or the node of a rank that was leased the lock, has heard a message.
    pub(super) fn on_lock(&mut self, rank: usize, number: u64, message: LockMessage, path: &Path) {
        let who = claimant(rank, number);
        match message {
            LockMessage::Claim => {
                let claim = Claim { who, thread: 0, mode: Mode::Exclusive };
                match self.locks.on_lock(NAME, claim, true).expect("a claim of a pattern") {
                    Claimed::Granted { .. } => self.grant(who, path),
                    Claimed::Waits | Claimed::Busy => {}
                }
            }
            LockMessage::GiveBack => {
                self.locks.on_unlock(who).expect("the rank has the lock");
                self.send_lock(rank, number, (HOME, self.node_of(rank)), LockMessage::GivenBack, path);
            }
            LockMessage::Recall => {
                let recalled = self.recall(rank, number);
                return self.send_lock(rank, number, (self.node_of(rank), HOME), LockMessage::Recalled(recalled), path);
            }
            LockMessage::Recalled(recalled) => self.locks.on_recalled(who, recalled),
            LockMessage::Granted { .. } | LockMessage::GivenBack => unreachable!("answers go to ranks"),
        }
        self.drain_locks(path);
    }

    /// A rank has got the lock. The home lends it while nobody waits.
    fn grant(&mut self, who: Claimant, path: &Path) {
        let (rank, leased) = (who.link as usize, self.locks.on_lend(who));
        self.send_lock(rank, who.number, (HOME, self.node_of(rank)), LockMessage::Granted { leased }, path);
    }

    fn drain_locks(&mut self, path: &Path) {
        loop {
            if let Some(grant) = self.locks.poll() {
                self.grant(grant.who, path);
            } else if let Some(step) = self.locks.poll_recall() {
                let RecallStep::Begin(who) = step else { continue };
                let rank = who.link as usize;
                match self.node_of(rank) {
                    // Words between the home and its own node are no messages.
                    HOME => {
                        let recalled = self.recall(rank, who.number);
                        self.locks.on_recalled(who, recalled);
                    }
                    node => self.send_lock(rank, who.number, (HOME, node), LockMessage::Recall, path),
                }
            } else {
                return;
            }
        }
    }

    /// A node looks at the word of its rank.
    fn recall(&mut self, rank: usize, number: u64) -> Recalled {
        if self.taking(rank) != number || !self.step_word(rank, LeaseEvent::Recall) {
            return Recalled::Unknown;
        }
        let outcome = self.ranks[rank].lease.map_or(Recalled::Unknown, LeaseWord::recalled);
        if outcome == Recalled::Kept {
            // The home hears it by this answer, so the word is over.
            self.step_word(rank, LeaseEvent::End);
        }
        outcome
    }

    /// A rank takes in what the home answered.
    pub(super) fn take_lock(&mut self, rank: usize, message: LockMessage) {
        let is_expected = match message {
            LockMessage::Granted { leased: true } => self.step_word(rank, LeaseEvent::Lend),
            LockMessage::GivenBack => self.step_word(rank, LeaseEvent::End),
            _ => true,
        };
        assert!(is_expected, "the home answers what was asked");
    }
}
