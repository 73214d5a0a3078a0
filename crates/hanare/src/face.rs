//! The face by which this copy of the library is used. Nodes count commands by it.

use hanare_protocol::wire::exchange::face_head;
pub use hanare_protocol::wire::face::ProgramFace;
use hanare_protocol::wire::face::SINCE;
use hanare_protocol::wire::head::Head;
use std::sync::OnceLock;

static FACE: OnceLock<ProgramFace> = OnceLock::new();

/// Says the face of this copy of the library, before it attaches. The first to say so counts; where nobody does, it is [`ProgramFace::Rust`].
pub fn use_as(face: ProgramFace) {
    // A library over another one, as OpenSHMEM over C, says it first.
    let _ = FACE.set(face);
}

/// The face of this copy of the library.
pub(crate) fn used() -> ProgramFace {
    FACE.get().copied().unwrap_or(ProgramFace::Rust)
}

/// The head that tells a node this face, where both speak that version.
pub(crate) fn told(spoken: u32) -> Option<Head> {
    (spoken >= SINCE).then(|| face_head(used()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hanare_protocol::wire::exchange::Query;

    #[test]
    fn the_first_to_say_counts_and_older_nodes_are_not_told() {
        assert_eq!(used(), ProgramFace::Rust);
        use_as(ProgramFace::Fortran);
        use_as(ProgramFace::C);
        assert_eq!(used(), ProgramFace::Fortran);
        assert_eq!(told(SINCE - 1), None);
        let head = told(SINCE).unwrap();
        assert_eq!(Query::decode(&head, &[]), Ok(Query::Face(ProgramFace::Fortran)));
    }
}
