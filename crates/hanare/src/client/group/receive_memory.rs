//! Memory for bodies at their receivers' hosts: the sender's receive ring there, or the heap of the receiver's memory.

use super::failure::{Failure, Outcome};
use super::peers::Parties;
use super::sends::short_part;
use crate::client::own_region::OwnRegion;
use crate::client::pool::Pool;
use crate::client::region::Region;
use hanare_protocol::message::header::{BodyLocation, BodyRoom};
use hanare_protocol::message::receive_ring::{ReceiveLocation, ReceiveRing, SLOT_COUNT, receive_ring_len};
use hanare_protocol::shape::Shape;
use hanare_protocol::{Error, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};

/// The party's memory for bodies that others send; it ends with the mailbox.
pub(super) struct OwnReceiveMemory {
    heap: OwnRegion,
    rings: Option<OwnRegion>,
    room: BodyRoom,
}

impl OwnReceiveMemory {
    /// Makes a heap of `len` bytes for party `me` of `parties`.
    pub fn new(pool: &Pool, stem: &str, me: u32, len: u64, parties: u32) -> Result<OwnReceiveMemory> {
        let room = BodyRoom { heap_len: len, ring_len: receive_ring_len(len, parties) };
        let heap = OwnRegion::new(pool, &heap_name(stem, me), len)?;
        let rings_len = room.ring_len.saturating_mul(parties.into());
        let rings = if rings_len > 0 { Some(OwnRegion::new(pool, &receive_rings_name(stem, me), rings_len)?) } else { None };
        Ok(OwnReceiveMemory { heap, rings, room })
    }

    /// The rings of all senders.
    pub fn rings(&self) -> Option<&Region> {
        self.rings.as_ref().map(|rings| &*rings.region)
    }

    /// The memory for those who use it.
    pub fn memory(&self) -> ReceiveMemory {
        ReceiveMemory(Arc::new(ReceiveRegions {
            heap: self.heap.region.clone(),
            rings: self.rings.as_ref().map(|rings| rings.region.clone()),
            room: self.room,
            has_room: AtomicBool::new(true),
        }))
    }
}

fn heap_name(stem: &str, party: u32) -> String {
    format!("{stem}{party}")
}

fn receive_rings_name(stem: &str, party: u32) -> String {
    format!("{stem}strips{party}")
}

/// The party's receive memory.
#[derive(Clone)]
pub(super) struct ReceiveMemory(Arc<ReceiveRegions>);

struct ReceiveRegions {
    heap: Arc<Region>,
    /// A ring for each party.
    rings: Option<Arc<Region>>,
    room: BodyRoom,
    /// False from a refused block until one is given back.
    has_room: AtomicBool,
}

impl ReceiveMemory {
    /// Size of the heap and of the rings.
    pub fn room(&self) -> BodyRoom {
        self.0.room
    }

    /// A body in the heap.
    pub fn in_heap(&self, offset: u64, len: u64) -> ReceivedBody {
        ReceivedBody { memory: self.clone(), place: ReceivedBodyLocation::Heap, offset, len }
    }

    /// A body in the ring of its sender.
    pub fn in_receive_ring(&self, from: u32, place: ReceiveLocation, len: u64) -> ReceivedBody {
        let ring = u64::from(from) * self.0.room.ring_len;
        let byte = ring + u64::from(place.slot);
        ReceivedBody {
            memory: self.clone(),
            place: ReceivedBodyLocation::Ring { byte, turn: place.turn },
            offset: ring + place.at,
            len,
        }
    }

    /// A block of the heap for a body; `None` where there is no room. **Cost**: a message each way to this host's node, and none while it is
    /// known that there is no room.
    pub fn allocate(&self, len: u64) -> Result<Option<ReceivedBody>> {
        let ReceiveRegions { heap, has_room, .. } = &*self.0;
        // Taken before the question: a block that is given back meanwhile says again that there may be room.
        if !has_room.swap(false, Ordering::Relaxed) {
            return Ok(None);
        }
        let taken = match heap.heap().allocate(len.max(1), 64) {
            Err(Error::HeapFull { .. } | Error::LimitReached { .. }) => return Ok(None),
            taken => taken,
        };
        has_room.store(true, Ordering::Relaxed);
        taken.map(|offset| Some(self.in_heap(offset, len)))
    }
}

/// A body in receive memory, whose block is free again when this is dropped.
pub(super) struct ReceivedBody {
    memory: ReceiveMemory,
    place: ReceivedBodyLocation,
    pub offset: u64,
    pub len: u64,
}

enum ReceivedBodyLocation {
    Heap,
    /// The byte that says that the block is free, and what it says then.
    Ring {
        byte: u64,
        turn: u8,
    },
}

impl ReceivedBody {
    /// The region of its bytes.
    pub fn region(&self) -> &Region {
        let ReceiveRegions { heap, rings, .. } = &*self.memory.0;
        match (&self.place, rings) {
            (ReceivedBodyLocation::Ring { .. }, Some(rings)) => rings,
            // A header of a ring is refused where there are none.
            (ReceivedBodyLocation::Heap, _) | (ReceivedBodyLocation::Ring { .. }, None) => heap,
        }
    }
}

impl Drop for ReceivedBody {
    fn drop(&mut self) {
        // With the node the block is gone, too.
        match self.place {
            ReceivedBodyLocation::Heap => {
                let _ = self.region().heap().free(self.offset);
                self.memory.0.has_room.store(true, Ordering::Relaxed);
            }
            ReceivedBodyLocation::Ring { byte, turn } => {
                // Reads of the body come before its sender finds the byte.
                fence(Ordering::Release);
                let _ = self.region().put(byte, &[turn]);
            }
        }
    }
}

/// Up to so many bytes, the sender reads a part of a region on this host: to let its node send it costs more.
const READ_HERE_LEN: u64 = 64 << 10;

/// Room for a body in another party's memory.
pub(super) struct Room {
    pub region: Arc<Region>,
    pub at: u64,
    pub place: BodyLocation,
    /// True if bytes may go there in one message with their head, and be put twice. That is another host's memory that only this party
    /// writes.
    pub takes_ahead: bool,
}

impl Room {
    /// The bytes of a part of a region on this host, if it is cheaper to send them from here than to have them fetched.
    pub fn read_part(&self, region: &Region, shape: &Shape<'_>, len: u64) -> Outcome<Option<Vec<u8>>> {
        let is_cheap = self.takes_ahead && region.is_local() && len <= READ_HERE_LEN;
        is_cheap.then(|| short_part(region, shape, len)).transpose()
    }
}

/// Another party's memory.
struct PeerReceiveMemory {
    heap: Arc<Region>,
    rings: Option<Arc<Region>>,
    /// The party's receive ring.
    ring: ReceiveRing,
    /// Offset of its first byte.
    begin: u64,
}

/// Receive memories of the other parties, with the blocks that this party has taken.
pub(super) struct PeerReceiveMemories {
    all: Vec<Option<PeerReceiveMemory>>,
    stem: String,
    ring_len: u64,
}

impl PeerReceiveMemories {
    /// For a party among `count`, each with receive memory of `len` bytes and names that begin with `stem`.
    pub fn new(count: u32, stem: String, len: u64) -> PeerReceiveMemories {
        PeerReceiveMemories { all: (0..count).map(|_| None).collect(), stem, ring_len: receive_ring_len(len, count) }
    }

    fn reach(&mut self, peers: &Parties, to: u32) -> Outcome<&mut PeerReceiveMemory> {
        let peer = &mut self.all[to as usize];
        if peer.is_none() {
            let open =
                |name: String| peers.pool().open_trusted(&name).map(Arc::new).map_err(|error| Failure::on_the_way(to, error));
            let heap = open(heap_name(&self.stem, to))?;
            let rings = if self.ring_len > 0 { Some(open(receive_rings_name(&self.stem, to))?) } else { None };
            let begin = u64::from(peers.me) * self.ring_len;
            *peer = Some(PeerReceiveMemory { heap, rings, ring: ReceiveRing::new(self.ring_len), begin });
        }
        Ok(peer.as_mut().expect("it was just opened"))
    }

    /// Takes room for a body.
    ///
    /// **Cost**: on one host some loads. Elsewhere nothing while the ring is empty or has room, else a message each way to look at it. Where it
    /// has none, a message each way more.
    pub fn take(&mut self, peers: &Parties, to: u32, len: u64) -> Outcome<Room> {
        let peer = self.reach(peers, to)?;
        let is_here = peer.rings.as_ref().is_some_and(|rings| rings.is_local());
        if is_here {
            peer.look().map_err(|error| Failure::on_the_way(to, error))?;
        }
        let mut place = peer.ring.take(len);
        if place.is_none() && !is_here && !peer.ring.is_empty() {
            peer.look().map_err(|error| Failure::on_the_way(to, error))?;
            place = peer.ring.take(len);
        }
        if let (Some(place), Some(rings)) = (place, &peer.rings) {
            let (at, place) = (peer.begin + place.at, BodyLocation::Ring(place));
            return Ok(Room { region: rings.clone(), at, place, takes_ahead: !is_here });
        }
        let at = peer.heap.heap().allocate(len.max(1), 64).map_err(|error| Failure::on_the_way(to, error))?;
        Ok(Room { region: peer.heap.clone(), at, place: BodyLocation::Heap(at), takes_ahead: false })
    }

    /// A body's block of which nobody else knows. Where its node is gone, so is the block.
    pub fn give_back(&mut self, to: u32, place: BodyLocation) {
        let Some(peer) = &mut self.all[to as usize] else { return };
        match place {
            BodyLocation::Heap(at) => drop(peer.heap.heap().free(at)),
            BodyLocation::Ring(place) => peer.ring.give_back(place),
            BodyLocation::Here | BodyLocation::Part(_) | BodyLocation::Fetched(_) => {}
        }
    }
}

impl PeerReceiveMemory {
    /// Looks which blocks of the ring the receiver needs no more.
    fn look(&mut self) -> Result<()> {
        let Some(rings) = self.rings.as_ref().filter(|_| !self.ring.is_empty()) else { return Ok(()) };
        let mut bytes = [0; SLOT_COUNT];
        rings.get(self.begin, &mut bytes)?;
        // Writes there come after the receiver's reads.
        fence(Ordering::Acquire);
        self.ring.look(&bytes);
        Ok(())
    }
}
