//! Command address spaces: aliases of the physical space that change what an access means.
//!
//! The low part of a real address is a main-memory address; the high part names the command. A port's frame and its save
//! area differ in the high part only, so a port miss finds its save area without a table.

/// Bits of a main-memory address.
pub const DISPLACEMENT_BITS: u32 = 40;
/// Bytes of a page.
pub const PAGE: u64 = 4096;

/// What an access to an address space means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Main memory itself.
    Memory,
    /// The real port space: write ports and read ports.
    Port,
    /// A load gives the number of blocks in the ring buffer.
    Count,
    /// A load gives the head's word, or a value the program does not use where the queue is empty.
    ReadOrNull,
}

impl Command {
    const ALL: [Command; 4] = [Command::Memory, Command::Port, Command::Count, Command::ReadOrNull];
}

/// A real address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RealAddress(pub u64);

impl RealAddress {
    /// The alias of a main-memory address in a command space.
    // FEATURE: VQ-F2
    pub fn new(command: Command, displacement: u64) -> RealAddress {
        let high = Command::ALL.iter().position(|other| *other == command).expect("ALL holds every command") as u64;
        RealAddress((high << DISPLACEMENT_BITS) | (displacement & ((1 << DISPLACEMENT_BITS) - 1)))
    }

    /// The command; none where no space has this high part.
    pub fn command(self) -> Option<Command> {
        Command::ALL.get((self.0 >> DISPLACEMENT_BITS) as usize).copied()
    }

    /// The main-memory address: of a port, its save area.
    pub fn displacement(self) -> u64 {
        self.0 & ((1 << DISPLACEMENT_BITS) - 1)
    }
}

/// Why the system refused a port page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotOwned {
    /// The physical page asked for.
    pub page: u64,
}

/// The port page of a physical page, for a process that owns the page.
// FEATURE: VQ-F3
pub fn acquire_port_page(owned_pages: &[u64], page: u64) -> Result<RealAddress, NotOwned> {
    if owned_pages.contains(&page) { Ok(RealAddress::new(Command::Port, page * PAGE)) } else { Err(NotOwned { page }) }
}

/// Blocks a ring buffer may have in one page, behind the frame of its context.
// FEATURE: VQ-F4
pub fn ring_blocks_in_page(block: u64) -> u64 {
    PAGE / block - 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::facts;

    #[test]
    fn a_port_and_its_save_area_share_the_displacement() {
        let port = acquire_port_page(&[3, 7], 7).unwrap();
        assert_eq!((port.command(), port.displacement()), (Some(Command::Port), 7 * PAGE));
        assert_eq!(acquire_port_page(&[3], 7), Err(NotOwned { page: 7 }));
        assert_eq!(RealAddress::new(Command::Count, port.displacement()).displacement(), port.displacement());
        assert_eq!(RealAddress(9 << DISPLACEMENT_BITS).command(), None);
    }

    #[test]
    fn a_row_fits_the_ring_of_one_page() {
        assert_eq!(ring_blocks_in_page(32) as f64, facts().number("vq.check.max_blocks_4k_page"));
        assert!(facts().number("vq.check.row_blocks") <= ring_blocks_in_page(32) as f64);
    }
}
