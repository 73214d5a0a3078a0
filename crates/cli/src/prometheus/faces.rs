//! Metrics of a node's commands by the face that sent them.

use super::{MetricKind, labels, metric};
use hanare::ProgramFace;
use hanare_protocol::wire::control::NodeCounts;
use std::collections::BTreeMap;

/// The text of all of them. A face, a kind of command and its origin stand there once something was done.
pub fn page(told: &[(ProgramFace, NodeCounts)]) -> String {
    let (mut done, mut refused) = (BTreeMap::<String, [u64; 3]>::new(), BTreeMap::<String, u64>::new());
    for (face, counts) in told {
        for command in &counts.commands {
            let sums = done.entry(format!("{{face=\"{}\",{}}}", face.name(), labels(command))).or_default();
            for (sum, more) in sums.iter_mut().zip([command.count, command.bytes, command.micros]) {
                *sum = sum.saturating_add(more);
            }
        }
        for (error, count) in &counts.refused {
            let sum = refused.entry(format!("{{face=\"{}\",error=\"{error}\"}}", face.name())).or_default();
            *sum = sum.saturating_add(*count);
        }
    }
    let of = |at: usize| done.iter().map(move |(labels, sums)| (labels.clone(), sums[at]));
    let mut text = String::new();
    let kind = MetricKind::Counter;
    metric(&mut text, kind, "hanare_face_commands_total", "Commands that this node did, by the face that sent them.", of(0));
    metric(&mut text, kind, "hanare_face_command_bytes_total", "Bytes of regions that they touched.", of(1));
    let seconds = of(2).map(|(labels, micros)| (labels, micros as f64 / 1e6));
    metric(&mut text, kind, "hanare_face_command_seconds_total", "Time from their admission to the end of the answer.", seconds);
    metric(&mut text, kind, "hanare_face_commands_refused_total", "Commands that this node refused.", refused);
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use hanare_protocol::wire::control::{CommandCount, CommandOrigin};

    #[test]
    fn a_label_stands_once_whatever_numbers_of_faces_a_node_tells() {
        let command = CommandCount {
            kind: "put".to_owned(),
            from: CommandOrigin::OtherHost,
            count: 2,
            bytes: 16,
            micros: 1_500_000,
            buckets: Vec::new(),
        };
        let counts = NodeCounts { commands: vec![command], refused: vec![("is_mapped".to_owned(), 1)] };
        let text = page(&[(ProgramFace::Other, counts.clone()), (ProgramFace::Other, counts.clone()), (ProgramFace::C, counts)]);
        let wanted = [
            "hanare_face_commands_total{face=\"other\",command=\"put\",from=\"other_host\"} 4",
            "hanare_face_commands_total{face=\"c\",command=\"put\",from=\"other_host\"} 2",
            "hanare_face_command_bytes_total{face=\"other\",command=\"put\",from=\"other_host\"} 32",
            "hanare_face_command_seconds_total{face=\"c\",command=\"put\",from=\"other_host\"} 1.5",
            "hanare_face_commands_refused_total{face=\"other\",error=\"is_mapped\"} 2",
        ];
        for line in wanted {
            assert_eq!(text.lines().filter(|told| *told == line).count(), 1, "{line} in {text}");
        }
        assert_eq!(text.lines().filter(|line| !line.starts_with('#')).count(), 8, "{text}");
    }
}
