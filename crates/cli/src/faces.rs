//! Counts of commands by the face that sent them.

use hanare::{FaceCounts, ProgramFace};
use hanare_protocol::wire::control::{CommandCount, NodeCounts};
use std::collections::BTreeMap;

/// A node's counts, for each face that has some. A node of an earlier version does not tell: all of its counts are of an unknown face.
///
/// All numbers that this build does not know are one face here. So that face may come more than once.
pub fn of_node(told: Option<FaceCounts>, all: &NodeCounts) -> Vec<(ProgramFace, NodeCounts)> {
    match told {
        Some(told) => told.faces.into_iter().map(|(face, counts)| (ProgramFace::of(face.into()), counts)).collect(),
        None => {
            let is_used = |command: &&CommandCount| command.count > 0;
            let commands = all.commands.iter().filter(is_used).cloned().collect();
            vec![(ProgramFace::Unknown, NodeCounts { commands, refused: all.refused.clone() })]
        }
    }
}

/// Counts of a face, of all commands and nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaceSum {
    /// Number of commands.
    pub commands: u64,
    /// Bytes that they touched.
    pub bytes: u64,
    /// Time from their admission to the end of the answer, in microseconds.
    pub micros: u64,
    /// Commands that were refused.
    pub refused: u64,
}

/// The sums of nodes' counts.
pub fn sums(told: impl IntoIterator<Item = (ProgramFace, NodeCounts)>) -> BTreeMap<ProgramFace, FaceSum> {
    let mut sums: BTreeMap<ProgramFace, FaceSum> = BTreeMap::new();
    let add = |sum: &mut u64, more: u64| *sum = sum.saturating_add(more);
    for (face, counts) in told {
        let sum = sums.entry(face).or_default();
        for command in &counts.commands {
            add(&mut sum.commands, command.count);
            add(&mut sum.bytes, command.bytes);
            add(&mut sum.micros, command.micros);
        }
        counts.refused.iter().for_each(|(_, count)| add(&mut sum.refused, *count));
    }
    sums.retain(|_, sum| *sum != FaceSum::default());
    sums
}

#[cfg(test)]
mod tests {
    use super::*;
    use hanare_protocol::wire::control::CommandOrigin;

    fn counts(count: u64) -> NodeCounts {
        let of = |count| CommandCount {
            kind: "get".to_owned(),
            from: CommandOrigin::OwnHost,
            count,
            bytes: count * 8,
            micros: count * 2,
            buckets: Vec::new(),
        };
        NodeCounts { commands: vec![of(count), of(0)], refused: vec![("other".to_owned(), count)] }
    }

    #[test]
    fn nodes_of_earlier_versions_count_for_an_unknown_face_and_later_faces_are_one() {
        let told = FaceCounts { faces: vec![(ProgramFace::C.number(), counts(1)), (200, counts(2)), (255, counts(3))] };
        let all = of_node(Some(told), &counts(6)).into_iter().chain(of_node(None, &counts(7)));
        let sum = |count| FaceSum { commands: count, bytes: count * 8, micros: count * 2, refused: count };
        let wanted = [(ProgramFace::Unknown, sum(7)), (ProgramFace::Other, sum(5)), (ProgramFace::C, sum(1))];
        assert_eq!(sums(all), wanted.into_iter().collect());
        assert!(sums(of_node(None, &counts(0))).is_empty(), "a node that did nothing names no face");
    }
}
