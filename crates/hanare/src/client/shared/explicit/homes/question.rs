//! Question on changed pages: asked by digests, so that unchanged pages do not cross.

use super::super::answer::{Why, expect};
use super::super::digests::KnownDigest;
use super::super::message::ContextMessage;
use super::{Failed, Homes};
use crate::client::shared::fault_contexts::{LANE_PAGE_COUNT, MESSAGE_LEN, Tools};
use hanare_memory::diff::PAGE;
use hanare_protocol::limits::PAGE_LEN;
use hanare_protocol::wire::command::{Command, DIGEST_LEN, Op};

/// Bytes of a digest.
const LEN: usize = DIGEST_LEN as usize;

/// A page of a question.
pub(in super::super) struct AskedPage {
    pub page: u64,
    /// True if its home is asked; pages without a question are given up.
    pub is_asked: bool,
    /// The home's digest, once it said so.
    pub at_home: Option<KnownDigest>,
}

impl Homes {
    /// Most pages of one question: their digests fill a lane's room, and their numbers less than that of a message.
    pub const ASKED_COUNT: usize = LANE_PAGE_COUNT * PAGE / LEN;

    /// The command that asks for the digest of a page, and the home that is asked; `None` for a page that lies in parts.
    fn question(&self, page: u64) -> Option<(usize, Command)> {
        let mut pieces = self.pieces(page);
        let piece = pieces.next().filter(|_| pieces.next().is_none())?;
        let target = &self.targets[piece.extent];
        let command = target.command(Op::Digest, piece.offset, piece.len);
        Some((target.home, Command { stride: PAGE_LEN, ..command }))
    }

    /// True if a page lies whole at one home, which then knows if it has changed.
    pub fn can_tell(&self, page: u64) -> bool {
        self.question(page).is_some()
    }

    /// Asks the homes for the digests of pages, of [`Homes::ASKED_COUNT`] at most.
    ///
    /// **Cost**: one message each way for each home that has some, all at once; 4 bytes a page there, 16 back. **Errors**: the first home that
    /// failed; its pages are not told of.
    pub fn ask(&self, tools: &mut Tools, seed: &[u8; LEN], asked: &mut [AskedPage]) -> Result<(), Failed> {
        const { assert!(Homes::ASKED_COUNT * 4 <= MESSAGE_LEN * 3 / 4, "the numbers of all pages find room") };
        tools.seq += 1;
        let Tools { endpoints, pages: room, message, operands, reason, seq, .. } = tools;
        let (mut failed, mut counts) = (None, vec![0; self.count()]);
        for (home, count) in counts.iter_mut().enumerate() {
            let mut request = ContextMessage::new(message, operands);
            for one in asked.iter_mut().filter(|one| one.is_asked) {
                if let Some((_, command)) = self.question(one.page).filter(|(of, _)| *of == home) {
                    // A page that finds no room is given up like a changed one.
                    one.is_asked = request.list(command, seed);
                    *count += usize::from(one.is_asked);
                }
            }
            if *count > 0
                && let Err(why) = request.send(&endpoints[home], *seq, 0)
            {
                failed = failed.or(Some(Failed { home, why: Why::Broken(why) }));
                *count = 0;
            }
        }
        for (home, count) in counts.into_iter().enumerate().filter(|(_, count)| *count > 0) {
            let answer = &mut room[..count * LEN];
            let told = expect(&endpoints[home], *seq, answer.len() as u64, reason);
            if let Err(why) = told.and_then(|()| endpoints[home].receive(answer).map_err(Why::Broken)) {
                failed = failed.or(Some(Failed { home, why }));
                continue;
            }
            let of_home = |one: &&mut AskedPage| one.is_asked && self.question(one.page).is_some_and(|(of, _)| of == home);
            for (one, digest) in asked.iter_mut().filter(of_home).zip(answer.as_chunks::<LEN>().0) {
                one.at_home = Some(KnownDigest::of(u128::from_le_bytes(*digest)));
            }
        }
        failed.map_or(Ok(()), Err)
    }
}
