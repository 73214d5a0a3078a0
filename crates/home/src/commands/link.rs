//! The commands of one link: messages that come in, and answers that go out.

use super::ahead::AheadEnd;
use super::answers::{Answers, Response};
use super::incoming::{Arrived, Incoming, query_weight};
use super::memory::CommandMemory;
use super::outcomes::LinkOutcomes;
use crate::memory::Need;
use hanare_protocol::error::Happened;
use hanare_protocol::limits::LINK_TURN_COUNT;
use hanare_protocol::wire::copies::ExtentWrite;
use hanare_protocol::wire::exchange::{Query, Reply};
use hanare_protocol::{Error, Result};

/// The commands of one link. `G` is what the driver grants to threads.
pub struct LinkCommands<M: CommandMemory, G> {
    /// Messages that come in.
    pub incoming: Incoming<M>,
    /// Answers that go out.
    pub answers: Answers<M, G>,
    /// Queries that are not acted on yet, with the number of each.
    queries: Vec<(u64, Query)>,
}

impl<M: CommandMemory, G> LinkCommands<M, G> {
    /// A link on which nothing has come.
    pub fn new(memory: M) -> LinkCommands<M, G> {
        LinkCommands { incoming: Incoming::new(memory), answers: Answers::default(), queries: Vec::new() }
    }

    /// Before the driver receives: admits operands of a later message when replies to the earlier ones need no memory any more.
    pub fn begin_round(&mut self, is_shared: bool) {
        self.incoming.begin_round(!self.answers.is_idle(), is_shared);
        self.answers.is_shared = is_shared;
    }

    /// After the driver received. What came whole is answered in its order, and queries wait for the end of the turn.
    pub fn end_round(&mut self) {
        for finished in self.incoming.finished.drain(..) {
            match finished.arrived {
                Ok(Arrived::Commands(commands)) => {
                    let may_wait = finished.may_wait;
                    self.answers.push(finished.seq, Response::Commands { commands, may_wait });
                }
                Ok(Arrived::Query(query)) => self.queries.push((finished.seq, query)),
                Err(error) => self.answers.push(finished.seq, Response::Reply(Reply::Refused(error))),
            }
        }
    }

    /// Returns true when queries fill the link's turn: they are acted on when it is over, and some take long.
    pub fn asks_enough(&self) -> bool {
        self.queries.iter().map(|(_, query)| query_weight(query)).sum::<usize>() >= LINK_TURN_COUNT
    }

    /// The queries of the turn, in their order.
    pub fn take_queries(&mut self) -> Vec<(u64, Query)> {
        std::mem::take(&mut self.queries)
    }

    /// Pages that its message, or its answer, waits for; told once.
    pub fn need(&mut self) -> Option<Need> {
        self.answers.need().or_else(|| self.incoming.need(&self.answers.ahead))
    }

    /// The pages of [`LinkCommands::need`] are at home, or will not come. `stage` is the driver's buffer of the operands.
    pub fn recalled(&mut self, outcome: Result<(), Error>, stage: &[u8]) {
        match self.incoming.has_waiting_stage() {
            true => self.incoming.recalled(outcome, stage),
            false => self.answers.recalled(outcome),
        }
    }

    /// The write of the stage that [`LinkCommands::need`] has told of, where its extent has copies.
    ///
    /// **Cost**: a copy of the stage's operand. **Errors**: memory of the source of a copy went away.
    pub fn write(&self, stage: &[u8]) -> Result<Option<ExtentWrite>> {
        match self.incoming.has_waiting_stage() {
            true => Ok(self.incoming.write(stage)),
            false => self.answers.write(),
        }
    }

    /// The write of [`LinkCommands::write`] was given to the home of its extent. Returns true if the link goes on before it is applied: its
    /// message has more of a put, or is one append.
    pub fn goes_ahead(&mut self, write: &ExtentWrite, stage: &[u8]) -> bool {
        if !self.incoming.has_waiting_stage() {
            let goes_ahead = self.answers.append_goes_ahead(write);
            self.incoming.ahead = self.answers.ahead.extent();
            return goes_ahead;
        }
        let goes_ahead = self.incoming.current().is_some_and(|command| self.answers.ahead.add(command, write));
        if goes_ahead {
            self.incoming.ahead = self.answers.ahead.extent();
            self.incoming.set_applied(Vec::new());
            self.incoming.recalled(Ok(()), stage);
        }
        goes_ahead
    }

    /// The link's first write under way was done by copies and home, with the elements before it. Or it was not done, or may not be.
    pub fn applied(&mut self, outcome: Result<Vec<u8>>, stage: &[u8]) {
        let ended = self.answers.ahead.applied(outcome);
        self.incoming.ahead = self.answers.ahead.extent();
        let outcome = match ended {
            AheadEnd::Put => return,
            AheadEnd::Append(outcome) => return self.answers.append_applied(outcome),
            AheadEnd::Awaited(outcome) => outcome,
        };
        let outcome = outcome.map(|olds| match self.incoming.has_waiting_stage() {
            true => self.incoming.set_applied(olds),
            false => self.answers.set_applied(olds),
        });
        self.recalled(outcome, stage);
    }

    /// Hosts are about to map an extent: commands that came before them go on by pages. Returns true if the link has to have a turn for that.
    pub fn give_way(&mut self) -> bool {
        self.answers.give_way(self.incoming.memory());
        self.incoming.give_way()
    }

    /// Returns true while its message or its answer waits for bytes of another node, or for pages.
    pub fn waits_for_others(&self) -> bool {
        self.answers.waits_for_others() || self.incoming.waits_for_pages()
    }

    /// Outcomes of this connection's requests, if it ended now.
    pub fn outcomes(&self) -> LinkOutcomes {
        let (mut requests, forgotten) = self.answers.fates();
        requests.extend(self.incoming.fate());
        // Queries that came with the link's end were not acted on.
        let unheard = self.incoming.finished.iter().filter(|finished| matches!(finished.arrived, Ok(Arrived::Query(_))));
        let unheard = unheard.map(|finished| finished.seq).chain(self.queries.iter().map(|(seq, _)| *seq));
        requests.extend(unheard.map(|seq| (seq, Happened::No)));
        LinkOutcomes { last: self.incoming.last(), forgotten, requests }
    }
}
