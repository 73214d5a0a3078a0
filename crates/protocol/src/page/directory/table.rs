//! Every transition of a page at its home.

use crate::table::Row;

/// The states of a page at its home, as the table names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The bytes at home are good, and nobody has a copy.
    Home,
    /// The bytes at home are good, and some hosts may have copies.
    Shared,
    /// Only the owner's bytes are good.
    Owned,
    /// The newest bytes went with the host that owned them.
    Lost,
    /// A grant that nothing may overtake is on its way: to a writer, or to a reader whose last grant something overtook.
    Granting,
    /// The owner is to write the page back and keep a copy; a reader may be sent one by it.
    Downgrading,
    /// The owner is to send the page to the next owner.
    Transferring,
    /// The owner is to write the page back and keep nothing.
    Recalling,
    /// All copies are being dropped, for a face that will write at home.
    Clearing,
    /// A face writes at home.
    Held,
    /// The owner died while it was to send the page to another host, which is asked whether it came.
    Asking,
}

/// An event of a page at its home.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A host wants to read, and the bytes at home are good.
    Read,
    /// The same, and nothing may overtake the grant.
    ReadFirm,
    /// A host wants to write, and the bytes at home are good.
    Write,
    /// A host or a face wants to read what another host owns.
    ReadOwned,
    /// A host wants to write what another host owns.
    WriteOwned,
    /// The page is needed at home, and no copy elsewhere. The home's own host or a command wants to write it, or its owner asks for it.
    NeedOwned,
    /// A face wants to write at home, and there are copies.
    HoldShared,
    /// A face wants to write at home, and no copy is elsewhere.
    Hold,
    /// The reader of a firm grant has it.
    DoneRead,
    /// The writer has its grant.
    DoneWrite,
    /// The owner wrote the page back and keeps a copy; or the reader whose sender died had got one.
    WriteBack,
    /// The page came home, and its owner keeps nothing.
    PutBack,
    /// The same, and a face that waited for it writes; or one writes to what the home's own host had.
    PutBackHeld,
    /// The home's own host is gone before all had dropped their copies for it. Where the extent has copies, any writer.
    TakeBack,
    /// The owner is gone, or the writer that a grant was on its way to. The extent has copies, and the bytes at home count.
    FallBack,
    /// A copy has been dropped, and others have not.
    Ack,
    /// The last copy has been dropped.
    AckLast,
    /// A face has written; nobody has the page.
    Release,
    /// A face has written; the home's own host has a copy, which shows what was written.
    ReleaseShared,
    /// A face has written; the home's own host owns the page.
    ReleaseOwned,
    /// The host with the newest bytes is gone, or has passed them to one that is gone.
    BytesLost,
    /// The reader of a firm grant is gone, and nobody else has a copy.
    ReaderLost,
    /// The reader of a firm grant, or of a copy under way, is gone, or somebody who has a copy. Others have one.
    SharerLost,
    /// The last host that had a copy is gone.
    LastSharerLost,
    /// The owner died while it was to send the page to another host.
    SenderLost,
    /// The next owner died while the owner was to send it the page.
    ReceiverLost,
    /// The last host that had not yet dropped its copy is gone.
    LastAckLost,
}

use Phase::{Asking, Clearing, Downgrading, Granting, Held, Home, Lost, Owned, Recalling, Shared, Transferring};

/// Every transition of a page at its home. A request that comes while the page is in none of the first four states waits in
/// its queue.
pub const TABLE: &[Row<Phase, Event>] = &[
    Row { event: Event::Read, from: &[Home, Shared], to: Shared },
    Row { event: Event::ReadFirm, from: &[Home, Shared], to: Granting },
    Row { event: Event::Write, from: &[Home, Shared], to: Granting },
    Row { event: Event::ReadOwned, from: &[Owned], to: Downgrading },
    Row { event: Event::WriteOwned, from: &[Owned], to: Transferring },
    Row { event: Event::NeedOwned, from: &[Owned], to: Recalling },
    Row { event: Event::HoldShared, from: &[Shared], to: Clearing },
    Row { event: Event::Hold, from: &[Home, Shared, Owned], to: Held },
    Row { event: Event::DoneRead, from: &[Granting], to: Shared },
    Row { event: Event::DoneWrite, from: &[Granting, Transferring, Asking], to: Owned },
    Row { event: Event::WriteBack, from: &[Downgrading, Asking], to: Shared },
    Row { event: Event::PutBack, from: &[Owned, Granting, Downgrading, Transferring, Recalling, Asking], to: Home },
    Row { event: Event::PutBackHeld, from: &[Recalling, Held], to: Held },
    Row { event: Event::TakeBack, from: &[Granting], to: Shared },
    Row { event: Event::FallBack, from: &[Owned, Granting, Downgrading, Recalling], to: Home },
    Row { event: Event::Ack, from: &[Clearing], to: Clearing },
    Row { event: Event::AckLast, from: &[Clearing], to: Held },
    Row { event: Event::Release, from: &[Held], to: Home },
    Row { event: Event::ReleaseShared, from: &[Held], to: Shared },
    Row { event: Event::ReleaseOwned, from: &[Held], to: Owned },
    Row { event: Event::BytesLost, from: &[Owned, Granting, Downgrading, Recalling, Asking], to: Lost },
    Row { event: Event::ReaderLost, from: &[Granting], to: Home },
    Row { event: Event::SharerLost, from: &[Shared, Granting], to: Shared },
    Row { event: Event::LastSharerLost, from: &[Shared], to: Home },
    Row { event: Event::SenderLost, from: &[Downgrading, Transferring], to: Asking },
    Row { event: Event::ReceiverLost, from: &[Transferring], to: Recalling },
    Row { event: Event::LastAckLost, from: &[Clearing], to: Held },
];
