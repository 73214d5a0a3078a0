//! The face by which a program uses the pool, and a node's counts by face. Since version 28.
//!
//! A program tells its face once on each of its data links, by a [`Kind::Face`](super::head::Kind::Face). Counts are asked for by a
//! [`Kind::Look`](super::head::Kind::Look) with [`ABOUT_FACES`] as its head's detail. The reply is a
//! [`Kind::Seen`](super::head::Kind::Seen) with that detail and [`FaceCounts`] as its body. Nodes of earlier versions are neither told nor asked.
//!
//! Faces have numbers on the wire. A number that this build does not know is [`ProgramFace::Other`]. So no program adds a name to metrics.

use super::control::NodeCounts;
use serde::{Deserialize, Serialize};

/// Detail in the head of a question for counts by face, and of its reply.
pub const ABOUT_FACES: u64 = 2;

/// The version of the wire from which on nodes are told faces, and asked.
pub const SINCE: u32 = 28;

/// The face by which a program uses the pool. A later version adds faces at the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum ProgramFace {
    /// The program did not tell: it is of an earlier version.
    #[default]
    Unknown,
    /// A face of a later version.
    Other,
    /// A node of the pool, which copies.
    Node,
    /// The library in Rust.
    Rust,
    /// The library in C.
    C,
    /// The module in Fortran.
    Fortran,
    /// The package in Python.
    Python,
    /// The library of OpenSHMEM.
    OpenShmem,
    /// The command.
    Command,
    /// A mount.
    Files,
    /// A disk.
    Blocks,
    /// The service for clients of Redis.
    Redis,
    /// Main memory of programs that nobody changed.
    MainMemory,
}

impl ProgramFace {
    /// Number of faces.
    pub const COUNT: usize = ProgramFace::ALL.len();

    /// All of them, by number.
    pub const ALL: [ProgramFace; 13] = {
        use ProgramFace::*;
        [Unknown, Other, Node, Rust, C, Fortran, Python, OpenShmem, Command, Files, Blocks, Redis, MainMemory]
    };

    /// Its number on the wire.
    pub fn number(self) -> u8 {
        self as u8
    }

    /// The face of that number.
    pub fn of(number: u64) -> ProgramFace {
        usize::try_from(number).ok().and_then(|number| ProgramFace::ALL.get(number).copied()).unwrap_or(ProgramFace::Other)
    }

    /// The face that a program tells by that number. None says that it is a node, or did not tell.
    pub fn told(number: u64) -> ProgramFace {
        match ProgramFace::of(number) {
            ProgramFace::Unknown | ProgramFace::Node => ProgramFace::Other,
            face => face,
        }
    }

    /// Its name in metrics and tables.
    pub fn name(self) -> &'static str {
        match self {
            ProgramFace::Unknown => "unknown",
            ProgramFace::Other => "other",
            ProgramFace::Node => "node",
            ProgramFace::Rust => "rust",
            ProgramFace::C => "c",
            ProgramFace::Fortran => "fortran",
            ProgramFace::Python => "python",
            ProgramFace::OpenShmem => "openshmem",
            ProgramFace::Command => "command",
            ProgramFace::Files => "files",
            ProgramFace::Blocks => "blocks",
            ProgramFace::Redis => "redis",
            ProgramFace::MainMemory => "main_memory",
        }
    }
}

/// A node's counts of commands since its start, by face.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FaceCounts {
    /// Faces by number, with the counts of each that are not 0.
    pub faces: Vec<(u8, NodeCounts)>,
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects, reason = "numbers of a test")]
mod tests {
    use super::*;
    use crate::limits::LOOK_LEN_MAX;
    use crate::wire::command::OP_KINDS;
    use crate::wire::control::{self, BUCKETS_US, CommandCount, CommandOrigin};
    use std::collections::BTreeSet;

    #[test]
    fn faces_stand_at_their_numbers_with_names_of_their_own() {
        for (at, face) in ProgramFace::ALL.into_iter().enumerate() {
            assert_eq!((face.number() as usize, ProgramFace::of(at as u64)), (at, face));
        }
        let names: BTreeSet<&str> = ProgramFace::ALL.iter().map(|face| face.name()).collect();
        assert_eq!(names.len(), ProgramFace::COUNT);
    }

    #[test]
    fn a_number_of_a_later_version_is_another_face_and_no_program_is_a_node() {
        for number in [0, 1, 2, ProgramFace::COUNT as u64, 255, 256, 1 << 40, u64::MAX] {
            assert_eq!(ProgramFace::told(number), ProgramFace::Other, "{number}");
        }
        assert_eq!(ProgramFace::told(ProgramFace::Python.number().into()), ProgramFace::Python);
    }

    #[test]
    fn the_longest_answer_is_within_its_limit() {
        let count = CommandCount {
            kind: "compare_and_swap".to_owned(),
            from: CommandOrigin::OtherHost,
            count: u64::MAX,
            bytes: u64::MAX,
            micros: u64::MAX,
            buckets: vec![u64::MAX; BUCKETS_US.len()],
        };
        let refused = vec![("grant_refused".to_owned(), u64::MAX); 8];
        let counts = NodeCounts { commands: vec![count; 2 * OP_KINDS.len()], refused };
        let all = FaceCounts { faces: ProgramFace::ALL.map(|face| (face.number(), counts.clone())).to_vec() };
        let bytes = control::encode(&all);
        assert!(bytes.len() as u64 <= LOOK_LEN_MAX, "{} bytes", bytes.len());
        assert_eq!(control::decode(&bytes), Ok(all));
    }
}
