//! Arriving frames, put in the order of their numbers, and the counters in them.

use super::frame::{CHUNK_LEN_MAX, CREDIT, FRAME_LEN, FrameHead, FrameKind};

/// A numbered frame that the receiver has not taken.
pub(super) struct Arrived<D> {
    /// Its bytes of the stream, where it has any.
    pub(super) data: Option<D>,
    /// Number of bytes that follow from a window.
    pub(super) direct_len: usize,
}

/// Arrived frames of the peer: `D` holds the bytes of a frame.
///
/// - Frame `next + k` is at `(next + k) % CREDIT`, for `k` below `CREDIT`; others are refused.
/// - `taken` and `vouched` are the highest that the peer said.
pub(super) struct Arrivals<D> {
    token: u64,
    next: u64,
    frames: [Option<Arrived<D>>; CREDIT as usize],
    /// Number of our frames that the peer has taken.
    pub(super) taken: u64,
    /// Number of its bodies from windows that the peer vouches for.
    pub(super) vouched: u64,
    /// True if the peer could not receive a body from one of our windows.
    pub(super) has_failed: bool,
    /// True if the peer's first frame has come.
    pub(super) has_heard: bool,
    /// The first fault that no correct peer makes.
    pub(super) nonsense: Option<&'static str>,
    /// UCX's status when the way to the peer broke.
    pub(super) broken: Option<i8>,
}

impl<D> Arrivals<D> {
    pub(super) fn new(token: u64) -> Arrivals<D> {
        Arrivals {
            token,
            next: 0,
            frames: [const { None }; CREDIT as usize],
            taken: 0,
            vouched: 0,
            has_failed: false,
            has_heard: false,
            nonsense: None,
            broken: None,
        }
    }

    /// Takes a frame with `len` bytes. Calls `data` for bytes that are kept, and returns true if they are.
    pub(super) fn arrive(&mut self, head: &[u8], len: usize, data: impl FnOnce() -> Option<D>) -> bool {
        let Some(head) = self.head(head) else { return false };
        self.arrive_head(&head, len, data).unwrap_or_else(|nonsense| {
            self.nonsense.get_or_insert(nonsense);
            false
        })
    }

    /// [`Arrivals::arrive`] for a sealed frame: `open` returns its bytes, if the peer sealed it.
    pub(super) fn arrive_sealed(&mut self, head: &[u8], len: usize, open: impl FnOnce(&FrameHead) -> Option<(D, usize)>) {
        let Some(head) = self.head(head) else { return };
        let outcome = match head.kind {
            FrameKind::Numbered => match open(&head) {
                Some((data, len)) => self.arrive_head(&head, len, || Some(data)),
                None => Err("a frame that its peer did not seal"),
            },
            _ => self.arrive_head(&head, len, || None),
        };
        if let Err(nonsense) = outcome {
            self.nonsense.get_or_insert(nonsense);
        }
    }

    /// The head of a frame of our peer. `None` for a frame of another process that has our address from long ago.
    fn head(&self, bytes: &[u8]) -> Option<FrameHead> {
        FrameHead::decode(bytes).filter(|head| head.token == self.token)
    }

    fn arrive_head(&mut self, head: &FrameHead, len: usize, data: impl FnOnce() -> Option<D>) -> Result<bool, &'static str> {
        if head.kind == FrameKind::Reach {
            self.has_heard = true;
            return Ok(false);
        }
        self.taken = self.taken.max(head.taken);
        self.vouched = self.vouched.max(head.vouched);
        self.has_failed |= head.kind == FrameKind::Failed;
        if head.kind != FrameKind::Numbered {
            return if len == 0 && head.direct_len == 0 { Ok(false) } else { Err("a control frame with bytes") };
        }
        let direct_len = head.direct_len as usize;
        if len > FRAME_LEN || direct_len > CHUNK_LEN_MAX {
            return Err("a frame longer than frames are");
        }
        if len == 0 && direct_len == 0 {
            return Err("a frame without bytes");
        }
        let place = self.place(head.seq).ok_or("a frame out of its turn")?;
        if self.frames[place].is_some() {
            return Err("a frame that came twice");
        }
        let data = if len == 0 { None } else { Some(data().ok_or("a frame by rendezvous")?) };
        let is_kept = data.is_some();
        self.frames[place] = Some(Arrived { data, direct_len });
        Ok(is_kept)
    }

    fn place(&self, seq: u64) -> Option<usize> {
        let is_in_turn = seq.checked_sub(self.next).is_some_and(|ahead| ahead < CREDIT);
        is_in_turn.then_some((seq % CREDIT) as usize)
    }

    /// True if the peer's credit lets our frame of that number go. The peer's count of taken frames is not checked, because it limits only
    /// the peer's own room.
    pub(super) fn lets_go(&self, seq: u64) -> bool {
        seq < self.taken.saturating_add(CREDIT)
    }

    /// The number of the frame to be taken next, which is the count of frames taken.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// The frame `ahead` of the next, if it is there.
    pub(super) fn ahead(&self, ahead: u64) -> Option<&Arrived<D>> {
        self.frames[self.place(self.next + ahead)?].as_ref()
    }

    /// Takes the next frame, and returns the memory of its bytes.
    pub(super) fn take(&mut self) -> Option<D> {
        let place = (self.next % CREDIT) as usize;
        let arrived = self.frames[place].take().expect("the frame that is taken is there");
        self.next += 1;
        arrived.data
    }

    /// The memory of all frames that are still here.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = D> {
        self.frames.iter_mut().filter_map(|frame| frame.take()?.data)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(seq: u64) -> [u8; super::super::frame::FRAME_HEAD_LEN] {
        FrameHead { kind: FrameKind::Numbered, token: 7, seq, taken: 0, vouched: 0, direct_len: 0 }.encode()
    }

    #[test]
    fn frames_are_taken_in_their_order_however_they_come() {
        let mut arrivals = Arrivals::new(7);
        for seq in [2, 0, 3, 1] {
            assert!(arrivals.arrive(&frame(seq), 5, || Some(seq)));
        }
        let taken: Vec<u64> = (0..4).map(|_| arrivals.take().unwrap()).collect();
        assert_eq!(taken, [0, 1, 2, 3]);
        assert_eq!((arrivals.next(), arrivals.nonsense), (4, None));
        assert!(arrivals.ahead(0).is_none());
    }

    #[test]
    fn what_no_peer_sends_is_known() {
        let cases: [(&[u64], usize, &str); 4] = [
            (&[CREDIT], 5, "out of its turn"),
            (&[0, 0], 5, "twice"),
            (&[0], FRAME_LEN + 1, "longer"),
            (&[0], 0, "without bytes"),
        ];
        for (seqs, len, words) in cases {
            let mut arrivals = Arrivals::new(7);
            for seq in seqs {
                arrivals.arrive(&frame(*seq), len, || Some(*seq));
            }
            assert!(arrivals.nonsense.is_some_and(|text| text.contains(words)), "{:?}", arrivals.nonsense);
        }
    }

    #[test]
    fn strangers_are_not_heard() {
        let mut arrivals = Arrivals::new(8);
        assert!(!arrivals.arrive(&frame(0), 5, || Some(0)));
        assert!(!arrivals.arrive(b"hello", 5, || Some(0)));
        assert!(!arrivals.has_heard && arrivals.nonsense.is_none() && arrivals.ahead(0).is_none());
    }

    #[test]
    fn counters_never_go_back() {
        let mut arrivals = Arrivals::<()>::new(7);
        for taken in [5, 3] {
            let head = FrameHead { kind: FrameKind::Control, token: 7, seq: 0, taken, vouched: taken, direct_len: 0 };
            arrivals.arrive(&head.encode(), 0, || None);
        }
        assert_eq!((arrivals.taken, arrivals.vouched), (5, 5));
        assert!(arrivals.lets_go(CREDIT + 4) && !arrivals.lets_go(CREDIT + 5));
        let head = FrameHead { kind: FrameKind::Control, token: 7, seq: 0, taken: u64::MAX, vouched: 5, direct_len: 0 };
        arrivals.arrive(&head.encode(), 0, || None);
        assert!(arrivals.lets_go(CREDIT + 5), "a number that no frame has");
    }
}
