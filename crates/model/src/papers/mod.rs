//! The models, a folder each. Removing one means removing its folder and its two lines here.
use crate::experiment::Paper;

pub mod dimmnet2_drivers;
pub mod dimmnet3;
pub mod euphoria;
pub mod rhinet_fagus;
pub mod virtual_queue;

/// All models, in the order of the command's help.
pub fn papers() -> &'static [&'static Paper] {
    static PAPERS: [&Paper; 5] =
        [&dimmnet3::PAPER, &rhinet_fagus::PAPER, &dimmnet2_drivers::PAPER, &euphoria::PAPER, &virtual_queue::PAPER];
    &PAPERS
}

/// A model by the paper's id.
pub fn find(id: &str) -> Option<&'static Paper> {
    papers().iter().copied().find(|paper| paper.id == id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::facts;
    use crate::parameters::Source;

    #[test]
    fn a_parameter_chosen_from_a_table_names_the_facts() {
        for paper in papers() {
            for parameter in (paper.parameters)().iter() {
                parameter.from.iter().for_each(|key| assert_eq!(&facts().fact(key).key, key));
                if let Source::Chosen(why) = parameter.source {
                    let is_linked = !why.contains("Table ") || !parameter.from.is_empty();
                    assert!(is_linked, "{} {}: \"{why}\" names no fact", paper.id, parameter.key);
                }
            }
        }
    }

    #[test]
    fn every_claim_has_one_judge() {
        for claim in &facts().claims {
            let judges = papers().iter().flat_map(|paper| paper.judges()).filter(|(_, judge)| judge.id == claim.id);
            assert_eq!(judges.count(), 1, "{}", claim.id);
        }
    }
}
