//! Memory that a program may write, and that a child of it may: reserved before the program has it.

use super::ProgramSpace;
use crate::main_memory::room::Reservation;
use hanare::Result;
use hanare_protocol::wire::main_memory::BLOCK_LEN;
use std::sync::{Mutex, MutexGuard, PoisonError};

fn lock(reservation: &Mutex<Reservation>) -> MutexGuard<'_, Reservation> {
    reservation.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ProgramSpace {
    /// Reserves so many more blocks. `false` where the pool has no room, which the program's user is told.
    pub fn reserve(&self, blocks: u64) -> bool {
        let outcome = lock(&self.room).extend(blocks, self);
        self.is_granted("memory of", blocks, outcome)
    }

    /// Gives some back.
    pub fn give_back(&self, blocks: u64) {
        lock(&self.room).shrink(blocks);
    }

    /// The program is over.
    pub(super) fn give_back_all(&self) {
        self.give_back(u64::MAX);
        lock(&self.room_of_child).shrink(u64::MAX);
    }

    /// Reserves what a child may write, for a fork that follows.
    pub fn may_fork(&self) -> bool {
        let blocks = lock(&self.room).blocks();
        let outcome = lock(&self.room_of_child).extend(blocks, self);
        self.is_granted("a child that may write", blocks, outcome)
    }

    /// Room for a child that comes now: what was reserved for it, or all of it where nobody has asked before (`daemon` of the C library
    /// does not). `None` where there is none.
    pub fn room_of_child(&self) -> Option<Reservation> {
        let blocks = lock(&self.room).blocks();
        let mut room = lock(&self.room_of_child).take();
        let missing = blocks.saturating_sub(room.blocks());
        let outcome = room.extend(missing, self);
        self.is_granted("a child that may write", missing, outcome).then_some(room)
    }

    fn is_granted(&self, what: &str, blocks: u64, outcome: Result<()>) -> bool {
        match outcome {
            Ok(()) => self.goes_on(),
            Err(error) => {
                self.on_refused(what, blocks.saturating_mul(BLOCK_LEN), &error);
                return false;
            }
        }
        true
    }
}
