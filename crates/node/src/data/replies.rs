//! Answers on their way out of one link: the buffers and windows of what [`Answers`] says.

use super::execution::CommandExtents;
use super::gathering::{gather, give};
use crate::pages::SealedReply;
use hanare_fabric::{Link, LinkError};
use hanare_home::{Answers, Next, Response};
use hanare_memory::Window;
use hanare_protocol::Error;
use hanare_protocol::limits::STAGE_LEN;
use hanare_protocol::wire::exchange::{Reply, granted_head};
use hanare_protocol::wire::head::{Head, Kind};
use std::time::Duration;

/// The answers of a link of this node, which grants pages to threads.
pub(crate) type NodeAnswers = Answers<CommandExtents, SealedReply>;

/// An answer of such a link.
pub(crate) type NodeResponse = Response<CommandExtents, SealedReply>;

/// The buffers of a link's answers.
#[derive(Default)]
pub(crate) struct Replies {
    /// Gathered bytes of gets, one filled while the other leaves; of full length once used.
    stages: [Vec<u8>; 2],
    /// The one that is filled next.
    next_stage: usize,
    /// A reply's bytes.
    small: Vec<u8>,
    /// A grant to a thread, and its pages.
    granted: Option<SealedReply>,
    /// Results that were held back, shown to the link until it has nothing unsent.
    leaving: Vec<(u64, Vec<u8>)>,
    windows: Vec<Window>,
    /// Bytes of results that were given to the link.
    given_len: u64,
}

/// Result of pumping.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Pumped {
    Nothing,
    Something,
    /// A stage of long work: others have their turn first.
    Work,
}

impl Replies {
    /// Bytes of results that were given to the link since the last call.
    pub fn take_given_len(&mut self) -> u64 {
        std::mem::take(&mut self.given_len)
    }

    /// Moves answers on as far as the link takes them.
    pub fn pump(&mut self, answers: &mut NodeAnswers, link: &mut dyn Link, now: Duration) -> Result<Pumped, LinkError> {
        let mut pumped = Pumped::Nothing;
        loop {
            match answers.next(now, link.unsent_len()) {
                Next::Nothing => return Ok(pumped),
                Next::Again => {}
                Next::Others => {
                    show_life(answers, link, now)?;
                    return Ok(Pumped::Work);
                }
                Next::Later => self.leave(answers, link)?,
                Next::Reply(seq, reply) => self.reply(link, seq, &reply)?,
                Next::Granted(seq, granted) => self.grant(link, seq, granted)?,
                Next::Send => self.send_some(answers, link)?,
            }
            pumped = Pumped::Something;
        }
    }

    fn reply(&mut self, link: &mut dyn Link, seq: u64, reply: &Reply) -> Result<(), LinkError> {
        let head;
        (head, self.small) = reply.encode(seq);
        // SAFETY: the buffer is used again only when the link has nothing unsent; the session drops the link before it.
        unsafe { link.send(&head, &[Window::of(&self.small)]) }
    }

    fn grant(&mut self, link: &mut dyn Link, seq: u64, granted: SealedReply) -> Result<(), LinkError> {
        let granted = self.granted.insert(granted);
        self.windows.clear();
        // SAFETY: the records are not touched again before they have left.
        self.windows.push(unsafe { Window::of(&granted.records) });
        self.windows.extend_from_slice(&granted.pages);
        // SAFETY: the answers, which keep what is shown, are replaced only when the link has nothing unsent; the session drops
        // the link before them.
        unsafe { link.send(&granted_head(seq, granted.count, granted.pages_len()), &self.windows) }
    }

    /// Gives answers that were held back to a link that has nothing unsent.
    fn leave(&mut self, answers: &mut NodeAnswers, link: &mut dyn Link) -> Result<(), LinkError> {
        self.leaving.clear();
        answers.leave(&mut self.leaving);
        for (seq, result) in &self.leaving {
            let head = Head { body_len: result.len() as u64, ..Head::new(Kind::Done, *seq) };
            // SAFETY: the result stays as it is until the link has nothing unsent: this is called only then, and the session drops the
            // link before its replies.
            unsafe { link.send_later(&head, &[Window::of(result)])? };
        }
        Ok(())
    }

    fn send_some(&mut self, answers: &mut NodeAnswers, link: &mut dyn Link) -> Result<(), LinkError> {
        self.windows.clear();
        let (stage, mut gathered) = (&mut self.stages[self.next_stage], 0);
        stage.resize(STAGE_LEN, 0);
        let mut parts = answers.begin_parts();
        while let Some((part, command)) = parts.next_part() {
            if part.is_direct {
                give(command, &part, &mut self.windows);
                continue;
            }
            let into = &mut stage[gathered..][..part.len as usize];
            if let Err(error) = gather(command, part.at, into) {
                return self.fail(answers, link, error);
            }
            gathered += part.len as usize;
        }
        if gathered > 0 {
            // SAFETY: the stage is filled again after the other one, when no more than that is unsent; the session drops the link first.
            self.windows.push(unsafe { Window::of(&stage[..gathered]) });
            self.next_stage = 1 - self.next_stage;
        }
        let given_len = self.windows.iter().map(|window| window.len() as u64).sum();
        self.given_len += given_len;
        let begins = parts.give(given_len);
        // SAFETY: windows of extents and of results are kept by the answer's commands, which stay until the link has nothing unsent; the
        // stage as above.
        unsafe {
            match begins {
                Some((seq, total)) => link.send(&Head { body_len: total, ..Head::new(Kind::Done, seq) }, &self.windows)?,
                None if self.windows.is_empty() => {}
                None => link.extend(&self.windows)?,
            }
        }
        answers.end_parts(link.unsent_len());
        Ok(())
    }

    /// The memory went away while an answer was read from it.
    fn fail(&mut self, answers: &mut NodeAnswers, link: &mut dyn Link, error: Error) -> Result<(), LinkError> {
        match answers.fail_parts(error) {
            Ok((seq, reply)) => self.reply(link, seq, &reply),
            Err(error) => Err(LinkError::System { what: "reading lent memory".to_owned(), reason: error.to_string() }),
        }
    }
}

/// Lets the client know that its request is being worked on.
pub(super) fn show_life(answers: &mut NodeAnswers, link: &mut dyn Link, now: Duration) -> Result<(), LinkError> {
    if link.unsent_len() > 0 {
        return Ok(());
    }
    let Some(seq) = answers.sign_of_life(now) else { return Ok(()) };
    // SAFETY: there is no body.
    unsafe { link.send(&Head::new(Kind::Working, seq), &[]) }
}
