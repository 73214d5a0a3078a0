//! Memory of shared regions as a home reaches it: the pages at the home, and frames of pages that its host's programs map.

use hanare_protocol::id::{ClientId, Gid, Grant, NodeId, Rights, Slot};
use hanare_protocol::page::{HostId, HostMemory, Page};
use hanare_protocol::placement::Layout;
use hanare_protocol::wire::control::{FilePart, PageStat};
use hanare_protocol::wire::page::Join;
use hanare_protocol::{Error, Result};

/// A page's bytes.
pub type PageBytes = Box<[u8]>;

/// For each extent of a layout, which part of which file holds it; `None` for extents of other nodes.
pub type FileParts = Vec<Option<Vec<FilePart>>>;

/// The memory of shared regions, over lent extents and mappings in a node, over vectors in the simulator.
///
/// Every call returns at once, but for [`HostFrames::let_fills_end`].
pub trait PageMemory {
    /// The pages of one region that lie here.
    type Pages: HomePages;
    /// The page words and frames of one region that programs of this host map.
    type Frames: HostFrames<Home = Self::Pages>;

    /// Opens the extents of a region that lie on `node`. While the answer lives, coherent ones are reached through their pages alone.
    ///
    /// **Errors**: [`Error::GrantRefused`]; [`Error::BadUse`] where the memory is used or made in a way that does not allow it.
    fn open(&mut self, join: &Join, node: NodeId) -> Result<Self::Pages, NotShared>;

    /// Opens the extent of a region with copies whose home this node, `node`, has become.
    ///
    /// **Errors**: where the region was removed.
    fn open_home(&mut self, extent: (Gid, Slot), node: NodeId) -> Result<Self::Pages, NotShared>;

    /// Returns the rights that a grant gives to an extent of that length. **Errors**: [`Error::GrantRefused`].
    fn rights(&self, gid: Gid, extent: (Slot, u64), grant: Grant) -> Result<Rights>;

    /// A host waits no longer for an extent that [`PageMemory::open`] refused.
    fn cancel_share_wait(&mut self, gid: Gid, slot: Slot);

    /// Makes the page words and frames of a region.
    fn make_frames(&mut self, terms: FrameTerms<'_>) -> Result<Self::Frames>;

    /// Draws a number that no other node can guess.
    fn draw(&mut self) -> Result<u64>;
}

/// A region whose frames are made.
#[derive(Clone, Copy, Debug)]
pub struct FrameTerms<'a> {
    /// Its name.
    pub name: &'a str,
    /// The layout of its bytes.
    pub layout: &'a Layout,
    /// The home of each extent of the layout.
    pub home_of: &'a [usize],
    /// Number of its homes.
    pub home_count: usize,
    /// Number of slots for threads.
    pub slots: u16,
}

/// Why a region is not opened.
#[derive(Debug)]
pub struct NotShared {
    /// The error for the host that asked.
    pub error: Error,
    /// True if it may be opened later, without anybody's doing.
    pub passes: bool,
}

impl NotShared {
    /// An error that passes by itself.
    pub fn passing(error: Error) -> NotShared {
        NotShared { error, passes: true }
    }
}

impl From<Error> for NotShared {
    fn from(error: Error) -> NotShared {
        NotShared { error, passes: false }
    }
}

/// The pages of one region that lie at a home. A clone is cheap, and keeps them open.
///
/// Pages are numbered in the region. Callers name pages that lie here alone.
pub trait HomePages: Clone {
    /// A page where it lies, for a reply that sends it without a copy. It keeps the bytes, and does not keep the pages open.
    type View;

    /// Returns true while the region has an extent here: it was not removed.
    fn is_held(&self) -> bool;

    /// Keeps the extents on `node` of a region in their place while this lives. Hosts get and put them by commands, and not all would follow.
    ///
    /// **Errors**: as of [`PageMemory::open`].
    fn keep_in_place(&self, join: &Join, node: NodeId) -> Result<(), NotShared>;

    /// The slot of the region's only extent, where that has copies on other nodes. Its bytes are written by way of those.
    fn copied_slot(&self) -> Option<Slot>;

    /// Returns false where another node may be home of an extent with copies. True for all others.
    fn answers(&self) -> bool;

    /// Says of the extents whether newer bytes of their pages are elsewhere, and stay there.
    fn set_lacks_pages(&self, lacks: bool);

    /// Reads a page; behind the region's end are zeros.
    fn read_page(&self, page: u64) -> Result<PageBytes>;

    /// Returns a page in place, if all of it is the region's. It stays there as long as the returned view lives.
    fn view(&self, page: u64) -> Option<Self::View>;

    /// Writes a page.
    fn write_page(&self, page: u64, bytes: &[u8]) -> Result<()>;
}

/// The page words, frames and mappings of one region on its host: what the rules of [`hanare_protocol::page::Host`] work on.
pub trait HostFrames: HostMemory<Bytes = PageBytes> {
    /// Pages of this very node, whose frames are the memory of the home.
    type Home;
    /// A mapping of a program, as the node reaches it.
    type Mapping;
    /// Files for a program that maps the region.
    type Files: Default;

    /// A home calls this host `me`. `own` if its pages lie on this very node, and are mapped as they are.
    fn set_home(&mut self, home: usize, me: HostId, own: Option<Self::Home>);

    /// Files that a program maps.
    fn files(&self) -> Result<(FileParts, Self::Files)>;

    /// A program has mapped the region. **Errors**: [`Error::Garbage`] where the mapping is none of the region.
    fn hold(&mut self, client: ClientId, mapping: Self::Mapping) -> Result<()>;

    /// A program is gone.
    fn part(&mut self, client: ClientId);

    /// All programs count as gone, and may live: their mappings lose their pages as these are taken.
    fn part_all(&mut self);

    /// The programs that hold up steps on their mappings. Mappings of [`HostFrames::part_all`] that do are forgotten.
    fn stuck(&mut self) -> Vec<ClientId>;

    /// Waits for threads that put bytes into these frames, as long as one takes that is not stopped.
    fn let_fills_end(&self, pages: &[Page]);

    /// Number of filled frames.
    fn present_count(&self) -> u64;

    /// Tells all programs that stores were lost.
    fn tell_loss(&self);

    /// Adds what programs and the node did with pages.
    fn add_counts(&self, stat: &mut PageStat);
}
