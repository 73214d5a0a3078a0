//! The regions that a file system is made of: their names, owners, and how they are opened and made.

use hanare::{Changes, CreateOptions, Error, Placement, Pool, Region, Rights, User};

/// Opens, makes and removes the regions of a file system behind its first, `NAME@super`.
#[derive(Clone)]
pub struct Parts {
    pool: Pool,
    name: String,
    /// A drawn number in all names: nobody can have made a region, or taken a lock, of a name ahead.
    stem: u64,
    /// The owner that new regions get, where root mounts another user's file system. That user could not mount it any more otherwise.
    heir: Option<User>,
    /// Nodes that hold each byte of the first region, and so of all.
    copies: u8,
}

impl Parts {
    /// The parts of the file system that begins with this region.
    pub fn new(pool: &Pool, name: &str, stem: u64, front: &Region) -> Parts {
        let is_given = pool.user().uid == 0 && front.owner().uid != 0;
        Parts { pool: pool.clone(), name: name.to_owned(), stem, heir: is_given.then(|| front.owner()), copies: front.copies() }
    }

    /// The file system's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The name of a log, and of the lock for changing it.
    pub fn log(&self, log: u64) -> String {
        format!("{}@{:016x}.log.{log}", self.name, self.stem)
    }

    /// The name of a data region.
    pub fn data(&self, segment: u32) -> String {
        format!("{}@{:016x}.data.{segment}", self.name, self.stem)
    }

    /// Opens a region. **Errors**: the pool's; [`Error::NotTrusted`] where another user made it.
    pub fn open(&self, name: &str) -> Result<Region, Error> {
        let region = self.pool.open_for(name, Rights::Write)?;
        self.pool.trust().check_region(&region).map(|()| region)
    }

    /// Nodes that hold each of its bytes.
    pub fn copies(&self) -> u8 {
        self.copies
    }

    /// Makes a region. One with copies begins on this host's node where a node of its placement is lost.
    ///
    /// **Errors**: the pool's.
    pub fn create(&self, name: &str, len: u64, placement: Placement) -> Result<Region, Error> {
        let options = CreateOptions { placement, copies: self.copies, ..CreateOptions::default() };
        let region = options.make_where_nodes_live(|options| self.pool.create(name, len, options))?;
        let Some(heir) = self.heir else { return Ok(region) };
        match self.pool.alter(name, &Changes { owner: Some(heir), ..Changes::default() }) {
            Ok(()) => Ok(region),
            Err(error) => {
                self.pool.remove(name)?;
                Err(error)
            }
        }
    }

    /// Removes a region. **Errors**: the pool's.
    pub fn remove(&self, name: &str) -> Result<(), Error> {
        self.pool.remove(name)
    }
}
